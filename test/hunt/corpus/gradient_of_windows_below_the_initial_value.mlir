# way gradient
# seed 1
# found by the hunt
# input 000000000000f03f0000000000000040000000000000f0bf
module {
  func.func @main(%0: tensor<3xf64>) -> (tensor<6xf64>) {
    %1 = "stablehlo.constant"() {value = dense<-1.626540991067955e-01> : tensor<f64>} : () -> tensor<f64>
    %2 = "stablehlo.reduce_window"(%0, %1) ({
      ^bb0(%a0: tensor<f64>, %a1: tensor<f64>):
        %a2 = "stablehlo.minimum"(%a0, %a1) : (tensor<f64>, tensor<f64>) -> tensor<f64>
        "stablehlo.return"(%a2) : (tensor<f64>) -> ()
    }) {window_dimensions = array<i64: 1>, window_strides = array<i64: 1>, padding = array<i64: 1, 2>, base_dilations = array<i64: 1>, window_dilations = array<i64: 1>} : (tensor<3xf64>, tensor<f64>) -> tensor<6xf64>
    "func.return"(%2) : (tensor<6xf64>) -> ()
  }
}
