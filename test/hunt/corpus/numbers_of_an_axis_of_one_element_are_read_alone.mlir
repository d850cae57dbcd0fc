# way cpu
# seed 350000540
# base, 3 threads: output 0 (float64[2, 6, 1]), element 1 is 4.6734247085550326e-310, not 0 (± 0)
module {
  func.func @main() -> (tensor<2x6x1xf64>) {
    %0 = "stablehlo.iota"() {iota_dimension = 2 : i64} : () -> tensor<2x6x1xf64>
    %1 = "stablehlo.log_plus_one"(%0) : (tensor<2x6x1xf64>) -> tensor<2x6x1xf64>
    "func.return"(%1) : (tensor<2x6x1xf64>) -> ()
  }
}
