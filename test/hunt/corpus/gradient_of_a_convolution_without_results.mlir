# way gradient
# seed 1
# found by the hunt
# input 000000000000f03f000000000000004000000000000008400000000000001040
# input 000000000000f03f00000000000000400000000000000840
module {
  func.func @main(%0: tensor<2x2x1x1xf64>, %1: tensor<3x1x1x1xf64>) -> (tensor<1x2x2x0xf64>) {
    %2 = "stablehlo.convolution"(%0, %1) {window_strides = array<i64: 3, 1>, padding = array<i64: 1, 2, -1, 0>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 1>, window_reversal = array<i64: 0, 0>, convolution_dimensions = array<i64: 0, 3, 1, 2, 2, 3, 1, 0, 1, 0, 2, 3>, feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<2x2x1x1xf64>, tensor<3x1x1x1xf64>) -> tensor<1x2x2x0xf64>
    "func.return"(%2) : (tensor<1x2x2x0xf64>) -> ()
  }
}
