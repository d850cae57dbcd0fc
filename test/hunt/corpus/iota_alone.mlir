# way cpu
# seed 1
# found by the hunt
module {
  func.func @main() -> (tensor<3xi64>) {
    %0 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<3xi64>
    "func.return"(%0) : (tensor<3xi64>) -> ()
  }
}
