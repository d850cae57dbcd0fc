# way gradient
# seed 1
# found by the hunt
# input 000000000000f03f0000000000000040000000000000f0bf
module {
  func.func @main(%0: tensor<3xf64>) -> (tensor<f64>) {
    %1 = "stablehlo.constant"() {value = dense<-2.0e+00> : tensor<f64>} : () -> tensor<f64>
    %2 = "stablehlo.reduce"(%0, %1) ({
      ^bb0(%a0: tensor<f64>, %a1: tensor<f64>):
        %a2 = "stablehlo.minimum"(%a0, %a1) : (tensor<f64>, tensor<f64>) -> tensor<f64>
        "stablehlo.return"(%a2) : (tensor<f64>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
    "func.return"(%2) : (tensor<f64>) -> ()
  }
}
