module {
  func.func @main(%0: tensor<2x3xf32>, %1: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xbf16>, tensor<2xf32>, tensor<2x3xf32>, tensor<4x6xf32>, tensor<3x8x2xf32>, tensor<4x2x2xf32>, tensor<2x3xf32>, tensor<2xf16>, tensor<5x5xbf16>, tensor<3xf64>, tensor<2x1x2xi8>, tensor<2xui64>, tensor<i64>, tensor<3xi1>, tensor<0x7xf32>, tensor<2x3xi32>, tensor<0xui8>, tensor<2x3xf32>, tensor<1x1xf32>, tensor<3x3xf32>) {
    %2 = "stablehlo.negate"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "stablehlo.abs"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %4 = "stablehlo.exponential"(%3) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %5 = "stablehlo.log"(%4) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %6 = "stablehlo.sqrt"(%5) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %7 = "stablehlo.tanh"(%6) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %8 = "stablehlo.logistic"(%7) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %9 = "stablehlo.add"(%8, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %10 = "stablehlo.subtract"(%9, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %11 = "stablehlo.multiply"(%10, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %12 = "stablehlo.divide"(%11, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %13 = "stablehlo.maximum"(%12, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %14 = "stablehlo.minimum"(%13, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %15 = "stablehlo.power"(%14, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %16 = "stablehlo.compare"(%15, %1) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1> loc("C:\5Cm\C3\B6.py:1")
    %17 = "stablehlo.select"(%16, %0, %15) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %18 = "stablehlo.convert"(%17) : (tensor<2x3xf32>) -> tensor<2x3xbf16>
    %19 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %20 = "stablehlo.reduce"(%0, %19) ({
      ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
        %a2 = "stablehlo.multiply"(%a0, %a1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%a2) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %21 = "stablehlo.reduce"(%0, %19) ({
      ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
        %a2 = "stablehlo.maximum"(%a0, %a1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%a2) : (tensor<f32>) -> ()
    }) {dimensions = array<i64>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %22 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64: 1, 2>} : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
    %23 = "stablehlo.reshape"(%22) : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
    %24 = "stablehlo.transpose"(%22) {permutation = array<i64: 2, 0, 1>} : (tensor<4x2x3xf32>) -> tensor<3x4x2xf32>
    %25 = "stablehlo.slice"(%24) {start_indices = array<i64: 0, 1, 0>, limit_indices = array<i64: 3, 4, 2>, strides = array<i64: 1, 2, 1>} : (tensor<3x4x2xf32>) -> tensor<3x2x2xf32>
    %26 = "stablehlo.concatenate"(%25, %24, %25) {dimension = 1 : i64} : (tensor<3x2x2xf32>, tensor<3x4x2xf32>, tensor<3x2x2xf32>) -> tensor<3x8x2xf32>
    %27 = "stablehlo.dot_general"(%22, %22) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>} : (tensor<4x2x3xf32>, tensor<4x2x3xf32>) -> tensor<4x2x2xf32>
    %28 = "stablehlo.constant"() {value = dense<[[1.0e-01, 0x7F800000, 0xFF800000], [0x7FC00001, -0.0e+00, 1.4e-45]]> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
    %29 = "stablehlo.constant"() {value = dense<[3.333e-01, 0x7C00]> : tensor<2xf16>} : () -> tensor<2xf16>
    %30 = "stablehlo.constant"() {value = dense<7.93e-07> : tensor<5x5xbf16>} : () -> tensor<5x5xbf16>
    %31 = "stablehlo.constant"() {value = dense<[1.0e-01, 1.0e-320, 1.7976931348623157e+308]> : tensor<3xf64>} : () -> tensor<3xf64>
    %32 = "stablehlo.constant"() {value = dense<[[[-128, 127]], [[0, 1]]]> : tensor<2x1x2xi8>} : () -> tensor<2x1x2xi8>
    %33 = "stablehlo.constant"() {value = dense<[18446744073709551615, 0]> : tensor<2xui64>} : () -> tensor<2xui64>
    %34 = "stablehlo.constant"() {value = dense<-9223372036854775808> : tensor<i64>} : () -> tensor<i64>
    %35 = "stablehlo.constant"() {value = dense<[true, false, true]> : tensor<3xi1>} : () -> tensor<3xi1>
    %36 = "stablehlo.constant"() {value = dense<> : tensor<0x7xf32>} : () -> tensor<0x7xf32>
    %37 = "stablehlo.iota"() {start_indices = array<i64: 4, 5>, iota_dimension = 1 : i64} : () -> tensor<2x3xi32>
    %38 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<0xui8>
    %39 = "shoal.place"(%0) {cuts = array<i64: 1, 2, 0, 2, 0, 1, 3>, slots = array<i64: 7, 2>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %40:2 = "shoal.exchange"(%0) {channel = 9 : i64, moves = array<i64: 2, 0, 0, 1, 0, 0, 0, 0, 2, 3, 1, 1, 0, 3, 0, 0, 2, 0, 1, 3, 1, 2, 1, 4, 0, 0, 0, 0, 1, 1, 0, 3, 0, 5, 1, 0, 0, 0, 1, 3>} : (tensor<2x3xf32>) -> (tensor<3x3xf32>, tensor<1x1xf32>)
    "shoal.exchange"(%0) {channel = 10 : i64, moves = array<i64: 0, 0, 0, 1, 0, 0, 0, 0, 2, 3>} : (tensor<2x3xf32>) -> ()
    "func.return"(%17, %0, %18, %20, %21, %23, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40#1, %40#0) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xbf16>, tensor<2xf32>, tensor<2x3xf32>, tensor<4x6xf32>, tensor<3x8x2xf32>, tensor<4x2x2xf32>, tensor<2x3xf32>, tensor<2xf16>, tensor<5x5xbf16>, tensor<3xf64>, tensor<2x1x2xi8>, tensor<2xui64>, tensor<i64>, tensor<3xi1>, tensor<0x7xf32>, tensor<2x3xi32>, tensor<0xui8>, tensor<2x3xf32>, tensor<1x1xf32>, tensor<3x3xf32>) -> ()
  }
}
