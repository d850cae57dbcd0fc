# way api
# seed 700012874
# 4 workers: read: INVALID: node 17 (dot_general) on slot 2: dot_general: contracting dimensions differ: float32[1, 2, 8] axis 2 has 8, float32[6, 1, 8] axis 0 has 6
# input 0000803f0000004000004040000080400000a0400000c0400000e04000000041000010410000803f0000004000004040000080400000a0400000c0400000e040
# input 0000004000004040000080400000a0400000c0400000e040
# input 03000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400050006000700080009000100020003000400
# input 000080400000a0400000c0400000e04000000041000010410000803f0000004000004040000080400000a0400000c0400000e04000000041000010410000803f0000004000004040
# input 0000a040
# input 0000c040
# input 0000e04000000041000010410000803f0000004000004040000080400000a040
module {
  func.func @main(%0: tensor<2x1x8xf32>, %1: tensor<3x1x2xf32>, %2: tensor<8x4x4x1xui16>, %3: tensor<18x1xf32>, %4: tensor<f32>, %5: tensor<f32>, %6: tensor<8x1xf32>) -> (tensor<2x1x8xf32>, tensor<8x1xf32>, tensor<8x1xf32>, tensor<4x8xf32>, tensor<18x1xf32>, tensor<2xf32>, tensor<8x4x4x1xui16>, tensor<3x1x8xf32>) {
    %7 = "stablehlo.abs"(%0) : (tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
    %8 = "shoal.gelu"(%7) {approximate = #stablehlo<approximate tanh>} : (tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
    %9 = "stablehlo.transpose"(%8) {permutation = array<i64: 1, 2, 0>} : (tensor<2x1x8xf32>) -> tensor<1x8x2xf32>
    %10 = "stablehlo.convolution"(%9, %1) {window_strides = array<i64: 1>, padding = array<i64: 0, 0>, lhs_dilation = array<i64: 1>, rhs_dilation = array<i64: 1>, window_reversal = array<i64: 0>, convolution_dimensions = array<i64: 0, 2, 1, 2, 0, 1, 2, 0, 1>, feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x8x2xf32>, tensor<3x1x2xf32>) -> tensor<3x8x1xf32>
    %11 = "stablehlo.transpose"(%9) {permutation = array<i64: 0, 2, 1>} : (tensor<1x8x2xf32>) -> tensor<1x2x8xf32>
    %12 = "stablehlo.reshape"(%0) : (tensor<2x1x8xf32>) -> tensor<1x2x8xf32>
    %13 = "stablehlo.minimum"(%11, %12) : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<1x2x8xf32>
    %14 = "stablehlo.transpose"(%10) {permutation = array<i64: 0, 2, 1>} : (tensor<3x8x1xf32>) -> tensor<3x1x8xf32>
    %15 = "stablehlo.power"(%13, %13) : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<1x2x8xf32>
    %16 = "stablehlo.not"(%2) : (tensor<8x4x4x1xui16>) -> tensor<8x4x4x1xui16>
    %17 = "stablehlo.slice"(%3) {start_indices = array<i64: 2, 0>, limit_indices = array<i64: 17, 1>, strides = array<i64: 2, 1>} : (tensor<18x1xf32>) -> tensor<8x1xf32>
    %18 = "stablehlo.transpose"(%17) {permutation = array<i64: 0, 1>} : (tensor<8x1xf32>) -> tensor<8x1xf32>
    %19 = "stablehlo.dot_general"(%15, %18) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0, 2], rhs_contracting_dimensions = [1, 0]>} : (tensor<1x2x8xf32>, tensor<8x1xf32>) -> tensor<2xf32>
    %20 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %21 = "stablehlo.dynamic_update_slice"(%3, %3, %20, %20) : (tensor<18x1xf32>, tensor<18x1xf32>, tensor<i64>, tensor<i64>) -> tensor<18x1xf32>
    %22 = "stablehlo.iota"() {start_indices = array<i64: 2, 3>, iota_dimension = 1 : i64} : () -> tensor<4x8xf32>
    %23 = "stablehlo.clamp"(%4, %17, %5) : (tensor<f32>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
    %24 = "stablehlo.bitcast_convert"(%0) : (tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
    %25 = "stablehlo.select_and_scatter"(%23, %6, %5) ({
      ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
        %a2 = "stablehlo.compare"(%a0, %a1) {comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        "stablehlo.return"(%a2) : (tensor<i1>) -> ()
    }, {
      ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
        %a2 = "stablehlo.add"(%a0, %a1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%a2) : (tensor<f32>) -> ()
    }) {window_dimensions = array<i64: 1, 1>, window_strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>} : (tensor<8x1xf32>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
    %26 = "shoal.softmax"(%23) {dimension = 1 : i64} : (tensor<8x1xf32>) -> tensor<8x1xf32>
    %27 = "stablehlo.clamp"(%4, %24, %8) : (tensor<f32>, tensor<2x1x8xf32>, tensor<2x1x8xf32>) -> tensor<2x1x8xf32>
    "func.return"(%27, %26, %25, %22, %21, %19, %16, %14) : (tensor<2x1x8xf32>, tensor<8x1xf32>, tensor<8x1xf32>, tensor<4x8xf32>, tensor<18x1xf32>, tensor<2xf32>, tensor<8x4x4x1xui16>, tensor<3x1x8xf32>) -> ()
  }
}
