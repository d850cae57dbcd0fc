# way torch_gradient
# seed 1
# the initial value got nothing where none of the elements is as large
# input 000000000000f03f000000000000004000000000000018400000000000000840
# input 0000000000001440
module {
  func.func @main(%0: tensor<4xf64>, %1: tensor<f64>) -> (tensor<f64>, tensor<4xf64>) {
    %2 = "shoal.cumulate"(%0, %1) ({
      ^bb0(%a0: tensor<f64>, %a1: tensor<f64>):
        %a2 = "stablehlo.maximum"(%a0, %a1) : (tensor<f64>, tensor<f64>) -> tensor<f64>
        "stablehlo.return"(%a2) : (tensor<f64>) -> ()
    }) {dimension = 0 : i64} : (tensor<4xf64>, tensor<f64>) -> tensor<4xf64>
    "func.return"(%1, %2) : (tensor<f64>, tensor<4xf64>) -> ()
  }
}
