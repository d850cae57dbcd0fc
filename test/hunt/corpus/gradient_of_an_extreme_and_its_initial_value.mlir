# way torch_gradient
# seed 20786000405
# PyTorch: output 0 (float32[1, 6]), element 4 is 0.15839646756649017, not 0.079198233783245087 (± 5.96e-07)
# input 000080bf0000803f000000000000a040000000c00000803f
# input 000000c0
module {
  func.func @main(%0: tensor<1x6xf32>, %1: tensor<f32>) -> (tensor<1x6xf32>) {
    %2 = "stablehlo.reduce"(%0, %1) ({
      ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
        %a2 = "stablehlo.maximum"(%a0, %a1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%a2) : (tensor<f32>) -> ()
    }) {dimensions = array<i64>} : (tensor<1x6xf32>, tensor<f32>) -> tensor<1x6xf32>
    "func.return"(%2) : (tensor<1x6xf32>) -> ()
  }
}
