module {
  func.func @main(%0: tensor<2x3xf32>, %1: tensor<2x3xf32>, %2: tensor<i64>, %3: tensor<2xi32>, %4: tensor<2x4xf32>, %5: tensor<2x68xui8>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xbf16>, tensor<2xf32>, tensor<2x3xf32>, tensor<4x6xf32>, tensor<3x8x2xf32>, tensor<4x2x2xf32>, tensor<2x3xf32>, tensor<2xf16>, tensor<5x5xbf16>, tensor<3xf64>, tensor<2x1x2xi8>, tensor<2xui64>, tensor<i64>, tensor<3xi1>, tensor<0x7xf32>, tensor<2x3xi32>, tensor<0xui8>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x64xf16>, tensor<2xf32>, tensor<2xi64>, tensor<2x3xf16>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<1x1xf32>, tensor<3x3xf32>, tensor<7x5xf32>) {
    %6 = "stablehlo.negate"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %7 = "stablehlo.abs"(%6) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %8 = "stablehlo.exponential"(%7) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %9 = "stablehlo.log"(%8) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %10 = "stablehlo.sqrt"(%9) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %11 = "stablehlo.tanh"(%10) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %12 = "stablehlo.logistic"(%11) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %13 = "stablehlo.add"(%12, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %14 = "stablehlo.subtract"(%13, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %15 = "stablehlo.multiply"(%14, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %16 = "stablehlo.divide"(%15, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %17 = "stablehlo.maximum"(%16, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %18 = "stablehlo.minimum"(%17, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %19 = "stablehlo.power"(%18, %1) {shoal.scope = "layer1/\22attention\22"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("model.py:12")
    %20 = "stablehlo.compare"(%19, %1) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1> loc("C:\5Cm\C3\B6.py:1")
    %21 = "stablehlo.select"(%20, %0, %19) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %22 = "stablehlo.convert"(%21) : (tensor<2x3xf32>) -> tensor<2x3xbf16>
    %23 = "stablehlo.constant"() {value = dense<1.0e+00> : tensor<f32>} : () -> tensor<f32>
    %24 = "stablehlo.reduce"(%0, %23) ({
      ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
        %a2 = "stablehlo.multiply"(%a0, %a1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%a2) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %25 = "stablehlo.reduce"(%0, %23) ({
      ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
        %a2 = "stablehlo.maximum"(%a0, %a1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%a2) : (tensor<f32>) -> ()
    }) {dimensions = array<i64>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %26 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64: 1, 2>} : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
    %27 = "stablehlo.reshape"(%26) : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
    %28 = "stablehlo.transpose"(%26) {permutation = array<i64: 2, 0, 1>} : (tensor<4x2x3xf32>) -> tensor<3x4x2xf32>
    %29 = "stablehlo.slice"(%28) {start_indices = array<i64: 0, 1, 0>, limit_indices = array<i64: 3, 4, 2>, strides = array<i64: 1, 2, 1>} : (tensor<3x4x2xf32>) -> tensor<3x2x2xf32>
    %30 = "stablehlo.concatenate"(%29, %28, %29) {dimension = 1 : i64} : (tensor<3x2x2xf32>, tensor<3x4x2xf32>, tensor<3x2x2xf32>) -> tensor<3x8x2xf32>
    %31 = "stablehlo.dot_general"(%26, %26) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2]>} : (tensor<4x2x3xf32>, tensor<4x2x3xf32>) -> tensor<4x2x2xf32>
    %32 = "stablehlo.constant"() {value = dense<[[1.0e-01, 0x7F800000, 0xFF800000], [0x7FC00001, -0.0e+00, 1.4e-45]]> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
    %33 = "stablehlo.constant"() {value = dense<[3.333e-01, 0x7C00]> : tensor<2xf16>} : () -> tensor<2xf16>
    %34 = "stablehlo.constant"() {value = dense<7.93e-07> : tensor<5x5xbf16>} : () -> tensor<5x5xbf16>
    %35 = "stablehlo.constant"() {value = dense<[1.0e-01, 1.0e-320, 1.7976931348623157e+308]> : tensor<3xf64>} : () -> tensor<3xf64>
    %36 = "stablehlo.constant"() {value = dense<[[[-128, 127]], [[0, 1]]]> : tensor<2x1x2xi8>} : () -> tensor<2x1x2xi8>
    %37 = "stablehlo.constant"() {value = dense<[18446744073709551615, 0]> : tensor<2xui64>} : () -> tensor<2xui64>
    %38 = "stablehlo.constant"() {value = dense<-9223372036854775808> : tensor<i64>} : () -> tensor<i64>
    %39 = "stablehlo.constant"() {value = dense<[true, false, true]> : tensor<3xi1>} : () -> tensor<3xi1>
    %40 = "stablehlo.constant"() {value = dense<> : tensor<0x7xf32>} : () -> tensor<0x7xf32>
    %41 = "stablehlo.iota"() {start_indices = array<i64: 4, 5>, iota_dimension = 1 : i64} : () -> tensor<2x3xi32>
    %42 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<0xui8>
    %43 = "shoal.layer_norm"(%0) {dimension = 1 : i64, epsilon = 1.0e-05 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %44 = "shoal.gelu"(%0) {approximate = #stablehlo<approximate tanh>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %45 = "shoal.attention"(%0, %0, %0) {scale = -1.25e-01 : f64, causal = 0 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %46 = "shoal.rope"(%4, %3) {dimension = 0 : i64, theta = 5.0e+05 : f64, interleaved = true} : (tensor<2x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
    %47 = "shoal.dequantize"(%5) {format = #stablehlo<format q8_0>} : (tensor<2x68xui8>) -> tensor<2x64xf16>
    %48 = "shoal.cross_entropy"(%0, %3) {dimension = 1 : i64, ignore_index = -100 : i64} : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2xf32>
    %49 = "shoal.argmax"(%0) {dimension = 1 : i64} : (tensor<2x3xf32>) -> tensor<2xi64>
    %50 = "shoal.random"(%2) {start_indices = array<i64: 1, 0>, rng_distribution = #stablehlo<rng_distribution NORMAL>, whole_shape = array<i64: 3, 3>} : (tensor<i64>) -> tensor<2x3xf16>
    %51 = "stablehlo.constant"() {value = dense<0.0e+00> : tensor<f32>} : () -> tensor<f32>
    %52 = "shoal.cumulate"(%0, %51) ({
      ^bb0(%a0: tensor<f32>, %a1: tensor<f32>):
        %a2 = "stablehlo.add"(%a0, %a1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%a2) : (tensor<f32>) -> ()
    }) {dimension = 1 : i64} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %53 = "shoal.place"(%0) {cuts = array<i64: 1, 2, 0, 2, 0, 1, 3>, slots = array<i64: 7, 2>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %54:2 = "shoal.exchange"(%0) {channel = 9 : i64, moves = array<i64: 2, 0, 0, 1, 0, 0, 0, 0, 2, 3, 1, 1, 0, 3, 0, 0, 2, 0, 1, 3, 1, 2, 1, 4, 0, 0, 0, 0, 1, 1, 0, 3, 0, 5, 1, 0, 0, 0, 1, 3>} : (tensor<2x3xf32>) -> (tensor<3x3xf32>, tensor<1x1xf32>)
    "shoal.exchange"(%0) {channel = 10 : i64, moves = array<i64: 0, 0, 0, 1, 0, 0, 0, 0, 2, 3>} : (tensor<2x3xf32>) -> ()
    %55 = "shoal.source"() {strides = array<i64: 40, 4>, file = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", file_bytes = 1048576 : i64, offset = 4096 : i64, swapped = true, name = "model.gguf: blk.0.weight"} : () -> tensor<7x5xf32>
    "func.return"(%21, %0, %22, %24, %25, %27, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %52, %53, %54#1, %54#0, %55) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xbf16>, tensor<2xf32>, tensor<2x3xf32>, tensor<4x6xf32>, tensor<3x8x2xf32>, tensor<4x2x2xf32>, tensor<2x3xf32>, tensor<2xf16>, tensor<5x5xbf16>, tensor<3xf64>, tensor<2x1x2xi8>, tensor<2xui64>, tensor<i64>, tensor<3xi1>, tensor<0x7xf32>, tensor<2x3xi32>, tensor<0xui8>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x64xf16>, tensor<2xf32>, tensor<2xi64>, tensor<2x3xf16>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<1x1xf32>, tensor<3x3xf32>, tensor<7x5xf32>) -> ()
  }
}
