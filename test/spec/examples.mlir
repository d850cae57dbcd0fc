// The examples of the StableHLO specification (https://openxla.org/stablehlo/spec), with those of
// CHLO's operations beside them. Each program returns results and, after each, what it must be.

// -----
// abs
func.func @main() -> (tensor<3xi32>, tensor<3xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[-2, 0, 2]> : tensor<3xi32>} : () -> tensor<3xi32>
    %1 = "stablehlo.abs"(%0) : (tensor<3xi32>) -> tensor<3xi32>
    %2 = "stablehlo.constant"() {value = dense<[2, 0, 2]> : tensor<3xi32>} : () -> tensor<3xi32>
    "func.return"(%1, %2) : (tensor<3xi32>, tensor<3xi32>) -> ()
}

// -----
// add
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %1 = "stablehlo.constant"() {value = dense<[[5, 6], [7, 8]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %2 = "stablehlo.add"(%0, %1) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    %3 = "stablehlo.constant"() {value = dense<[[6, 8], [10, 12]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%2, %3) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// and
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %1 = "stablehlo.constant"() {value = dense<[[5, 6], [7, 8]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %2 = "stablehlo.and"(%0, %1) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    %3 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 0]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%2, %3) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// and
func.func @main() -> (tensor<2x2xi1>, tensor<2x2xi1>) {
    %0 = "stablehlo.constant"() {value = dense<[[false, false], [true, true]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
    %1 = "stablehlo.constant"() {value = dense<[[false, true], [false, true]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
    %2 = "stablehlo.and"(%0, %1) : (tensor<2x2xi1>, tensor<2x2xi1>) -> tensor<2x2xi1>
    %3 = "stablehlo.constant"() {value = dense<[[false, false], [false, true]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
    "func.return"(%2, %3) : (tensor<2x2xi1>, tensor<2x2xi1>) -> ()
}

// -----
// atan2
func.func @main() -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = "stablehlo.constant"() {value = dense<[0.0, 1.0, -1.0]> : tensor<3xf32>} : () -> tensor<3xf32>
    %1 = "stablehlo.constant"() {value = dense<[0.0, 0.0, 0.0]> : tensor<3xf32>} : () -> tensor<3xf32>
    %2 = "stablehlo.atan2"(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %3 = "stablehlo.constant"() {value = dense<[0.0, 1.57079637, -1.57079637]> : tensor<3xf32>} : () -> tensor<3xf32>
    "func.return"(%2, %3) : (tensor<3xf32>, tensor<3xf32>) -> ()
}

// -----
// bitcast_convert
func.func @main() -> (tensor<4xi16>, tensor<4xi16>) {
    %0 = "stablehlo.constant"() {value = dense<81985529216486895> : tensor<i64>} : () -> tensor<i64>
    %1 = "stablehlo.bitcast_convert"(%0) : (tensor<i64>) -> tensor<4xi16>
    %2 = "stablehlo.constant"() {value = dense<[-12817, -30293, 17767, 291]> : tensor<4xi16>} : () -> tensor<4xi16>
    "func.return"(%1, %2) : (tensor<4xi16>, tensor<4xi16>) -> ()
}

// -----
// broadcast_in_dim
func.func @main() -> (tensor<2x3x2xi32>, tensor<2x3x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2, 3]]> : tensor<1x3xi32>} : () -> tensor<1x3xi32>
    %1 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64: 2, 1>} : (tensor<1x3xi32>) -> tensor<2x3x2xi32>
    %2 = "stablehlo.constant"() {value = dense<[[[1, 1], [2, 2], [3, 3]], [[1, 1], [2, 2], [3, 3]]]> : tensor<2x3x2xi32>} : () -> tensor<2x3x2xi32>
    "func.return"(%1, %2) : (tensor<2x3x2xi32>, tensor<2x3x2xi32>) -> ()
}

// -----
// cbrt
func.func @main() -> (tensor<4xf64>, tensor<4xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[0.0, 1.0, 8.0, 27.0]> : tensor<4xf64>} : () -> tensor<4xf64>
    %1 = "stablehlo.cbrt"(%0) : (tensor<4xf64>) -> tensor<4xf64>
    %2 = "stablehlo.constant"() {value = dense<[0.0, 1.0, 2.0, 3.0]> : tensor<4xf64>} : () -> tensor<4xf64>
    "func.return"(%1, %2) : (tensor<4xf64>, tensor<4xf64>) -> ()
}

// -----
// ceil
func.func @main() -> (tensor<5xf32>, tensor<5xf32>) {
    %0 = "stablehlo.constant"() {value = dense<[-0.8166, -0.253, 0.253, 0.8166, 2.0]> : tensor<5xf32>} : () -> tensor<5xf32>
    %1 = "stablehlo.ceil"(%0) : (tensor<5xf32>) -> tensor<5xf32>
    %2 = "stablehlo.constant"() {value = dense<[-0.0, -0.0, 1.0, 1.0, 2.0]> : tensor<5xf32>} : () -> tensor<5xf32>
    "func.return"(%1, %2) : (tensor<5xf32>, tensor<5xf32>) -> ()
}

// -----
// clamp
func.func @main() -> (tensor<3xi32>, tensor<3xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[5, 10, 15]> : tensor<3xi32>} : () -> tensor<3xi32>
    %1 = "stablehlo.constant"() {value = dense<[3, 13, 23]> : tensor<3xi32>} : () -> tensor<3xi32>
    %2 = "stablehlo.constant"() {value = dense<[10, 15, 20]> : tensor<3xi32>} : () -> tensor<3xi32>
    %3 = "stablehlo.clamp"(%0, %1, %2) : (tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %4 = "stablehlo.constant"() {value = dense<[5, 13, 20]> : tensor<3xi32>} : () -> tensor<3xi32>
    "func.return"(%3, %4) : (tensor<3xi32>, tensor<3xi32>) -> ()
}

// -----
// compare
func.func @main() -> (tensor<2xi1>, tensor<2xi1>) {
    %0 = "stablehlo.constant"() {value = dense<[1.0, 3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
    %1 = "stablehlo.constant"() {value = dense<[1.1, 2.9]> : tensor<2xf32>} : () -> tensor<2xf32>
    %2 = "stablehlo.compare"(%0, %1) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
    %3 = "stablehlo.constant"() {value = dense<[true, false]> : tensor<2xi1>} : () -> tensor<2xi1>
    "func.return"(%2, %3) : (tensor<2xi1>, tensor<2xi1>) -> ()
}

// -----
// concatenate
func.func @main() -> (tensor<4x2xi64>, tensor<4x2xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi64>} : () -> tensor<3x2xi64>
    %1 = "stablehlo.constant"() {value = dense<[[7, 8]]> : tensor<1x2xi64>} : () -> tensor<1x2xi64>
    %2 = "stablehlo.concatenate"(%0, %1) {dimension = 0 : i64} : (tensor<3x2xi64>, tensor<1x2xi64>) -> tensor<4x2xi64>
    %3 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4], [5, 6], [7, 8]]> : tensor<4x2xi64>} : () -> tensor<4x2xi64>
    "func.return"(%2, %3) : (tensor<4x2xi64>, tensor<4x2xi64>) -> ()
}

// -----
// constant
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[0, 1], [2, 3]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %1 = "stablehlo.reshape"(%0) : (tensor<2x2xi32>) -> tensor<2x2xi32>
    %2 = "stablehlo.constant"() {value = dense<[[0, 1], [2, 3]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%1, %2) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// convert
func.func @main() -> (tensor<3xf64>, tensor<3xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[-1, 0, 1]> : tensor<3xi64>} : () -> tensor<3xi64>
    %1 = "stablehlo.convert"(%0) : (tensor<3xi64>) -> tensor<3xf64>
    %2 = "stablehlo.constant"() {value = dense<[-1.0, 0.0, 1.0]> : tensor<3xf64>} : () -> tensor<3xf64>
    "func.return"(%1, %2) : (tensor<3xf64>, tensor<3xf64>) -> ()
}

// -----
// cosine
func.func @main() -> (tensor<2x2xf64>, tensor<2x2xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[[0.0, 1.57079632], [3.14159265, 4.71238898]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    %1 = "stablehlo.cosine"(%0) : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %2 = "stablehlo.constant"() {value = dense<[[1.0, 6.79489659999999993e-09], [-1.0, -2.03846900000000007e-08]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    "func.return"(%1, %2) : (tensor<2x2xf64>, tensor<2x2xf64>) -> ()
}

// -----
// count_leading_zeros
func.func @main() -> (tensor<2x2xi64>, tensor<2x2xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[[0, 1], [128, -1]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
    %1 = "stablehlo.count_leading_zeros"(%0) : (tensor<2x2xi64>) -> tensor<2x2xi64>
    %2 = "stablehlo.constant"() {value = dense<[[64, 63], [56, 0]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
    "func.return"(%1, %2) : (tensor<2x2xi64>, tensor<2x2xi64>) -> ()
}

// -----
// divide
func.func @main() -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = "stablehlo.constant"() {value = dense<[17.1, -17.1, 17.1, -17.1]> : tensor<4xf32>} : () -> tensor<4xf32>
    %1 = "stablehlo.constant"() {value = dense<[3.0, 3.0, -3.0, -3.0]> : tensor<4xf32>} : () -> tensor<4xf32>
    %2 = "stablehlo.divide"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "stablehlo.constant"() {value = dense<[5.7, -5.7, -5.7, 5.7]> : tensor<4xf32>} : () -> tensor<4xf32>
    "func.return"(%2, %3) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----
// divide
func.func @main() -> (tensor<4xi32>, tensor<4xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[17, -17, 17, -17]> : tensor<4xi32>} : () -> tensor<4xi32>
    %1 = "stablehlo.constant"() {value = dense<[3, 3, -3, -3]> : tensor<4xi32>} : () -> tensor<4xi32>
    %2 = "stablehlo.divide"(%0, %1) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    %3 = "stablehlo.constant"() {value = dense<[5, -5, -5, 5]> : tensor<4xi32>} : () -> tensor<4xi32>
    "func.return"(%2, %3) : (tensor<4xi32>, tensor<4xi32>) -> ()
}

// -----
// dot_general
func.func @main() -> (tensor<2x2x2xi64>, tensor<2x2x2xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]> : tensor<2x2x2xi64>} : () -> tensor<2x2x2xi64>
    %1 = "stablehlo.constant"() {value = dense<[[[1, 0], [0, 1]], [[1, 0], [0, 1]]]> : tensor<2x2x2xi64>} : () -> tensor<2x2x2xi64>
    %2 = "stablehlo.dot_general"(%0, %1) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>} : (tensor<2x2x2xi64>, tensor<2x2x2xi64>) -> tensor<2x2x2xi64>
    %3 = "stablehlo.constant"() {value = dense<[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]> : tensor<2x2x2xi64>} : () -> tensor<2x2x2xi64>
    "func.return"(%2, %3) : (tensor<2x2x2xi64>, tensor<2x2x2xi64>) -> ()
}

// -----
// dynamic_slice
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]> : tensor<4x4xi32>} : () -> tensor<4x4xi32>
    %1 = "stablehlo.constant"() {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
    %2 = "stablehlo.constant"() {value = dense<3> : tensor<i64>} : () -> tensor<i64>
    %3 = "stablehlo.dynamic_slice"(%0, %1, %2) {slice_sizes = array<i64: 2, 2>} : (tensor<4x4xi32>, tensor<i64>, tensor<i64>) -> tensor<2x2xi32>
    %4 = "stablehlo.constant"() {value = dense<[[1, 1], [1, 1]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%3, %4) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// dynamic_update_slice
func.func @main() -> (tensor<4x4xi32>, tensor<4x4xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]> : tensor<4x4xi32>} : () -> tensor<4x4xi32>
    %1 = "stablehlo.constant"() {value = dense<[[1, 1], [1, 1]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %2 = "stablehlo.constant"() {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
    %3 = "stablehlo.constant"() {value = dense<3> : tensor<i64>} : () -> tensor<i64>
    %4 = "stablehlo.dynamic_update_slice"(%0, %1, %2, %3) : (tensor<4x4xi32>, tensor<2x2xi32>, tensor<i64>, tensor<i64>) -> tensor<4x4xi32>
    %5 = "stablehlo.constant"() {value = dense<[[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]> : tensor<4x4xi32>} : () -> tensor<4x4xi32>
    "func.return"(%4, %5) : (tensor<4x4xi32>, tensor<4x4xi32>) -> ()
}

// -----
// exponential
func.func @main() -> (tensor<2x2xf64>, tensor<2x2xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[[0.0, 1.0], [2.0, 3.0]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    %1 = "stablehlo.exponential"(%0) : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %2 = "stablehlo.constant"() {value = dense<[[1.0, 2.718281828459045], [7.38905609893065, 20.085536923187668]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    "func.return"(%1, %2) : (tensor<2x2xf64>, tensor<2x2xf64>) -> ()
}

// -----
// exponential_minus_one
func.func @main() -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = "stablehlo.constant"() {value = dense<[0.0, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
    %1 = "stablehlo.exponential_minus_one"(%0) : (tensor<2xf32>) -> tensor<2xf32>
    %2 = "stablehlo.constant"() {value = dense<[0.0, 1.71828187]> : tensor<2xf32>} : () -> tensor<2xf32>
    "func.return"(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> ()
}

// -----
// floor
func.func @main() -> (tensor<5xf32>, tensor<5xf32>) {
    %0 = "stablehlo.constant"() {value = dense<[-0.8166, -0.253, 0.253, 0.8166, 2.0]> : tensor<5xf32>} : () -> tensor<5xf32>
    %1 = "stablehlo.floor"(%0) : (tensor<5xf32>) -> tensor<5xf32>
    %2 = "stablehlo.constant"() {value = dense<[-1.0, -1.0, 0.0, 0.0, 2.0]> : tensor<5xf32>} : () -> tensor<5xf32>
    "func.return"(%1, %2) : (tensor<5xf32>, tensor<5xf32>) -> ()
}

// -----
// gather
func.func @main() -> (tensor<2x2x3x2x2xi32>, tensor<2x2x3x2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[[[1, 2], [3, 4], [5, 6], [7, 8]], [[9, 10], [11, 12], [13, 14], [15, 16]], [[17, 18], [19, 20], [21, 22], [23, 24]]], [[[25, 26], [27, 28], [29, 30], [31, 32]], [[33, 34], [35, 36], [37, 38], [39, 40]], [[41, 42], [43, 44], [45, 46], [47, 48]]]]> : tensor<2x3x4x2xi32>} : () -> tensor<2x3x4x2xi32>
    %1 = "stablehlo.constant"() {value = dense<[[[[0, 0], [1, 0], [2, 1]], [[0, 1], [1, 1], [0, 9]]], [[[0, 0], [2, 1], [2, 2]], [[1, 2], [0, 1], [1, 0]]]]> : tensor<2x2x3x2xi64>} : () -> tensor<2x2x3x2xi64>
    %2 = "stablehlo.gather"(%0, %1) {dimension_numbers = #stablehlo.gather<offset_dims = [3, 4], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [1], start_index_map = [2, 1], index_vector_dim = 3>, slice_sizes = array<i64: 1, 1, 2, 2>, indices_are_sorted = false} : (tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>) -> tensor<2x2x3x2x2xi32>
    %3 = "stablehlo.constant"() {value = dense<[[[[[1, 2], [3, 4]], [[3, 4], [5, 6]], [[13, 14], [15, 16]]], [[[33, 34], [35, 36]], [[35, 36], [37, 38]], [[41, 42], [43, 44]]]], [[[[1, 2], [3, 4]], [[13, 14], [15, 16]], [[21, 22], [23, 24]]], [[[43, 44], [45, 46]], [[33, 34], [35, 36]], [[27, 28], [29, 30]]]]]> : tensor<2x2x3x2x2xi32>} : () -> tensor<2x2x3x2x2xi32>
    "func.return"(%2, %3) : (tensor<2x2x3x2x2xi32>, tensor<2x2x3x2x2xi32>) -> ()
}

// -----
// iota
func.func @main() -> (tensor<4x5xi32>, tensor<4x5xi32>) {
    %0 = "stablehlo.iota"() {iota_dimension = 0 : i64} : () -> tensor<4x5xi32>
    %1 = "stablehlo.constant"() {value = dense<[[0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [2, 2, 2, 2, 2], [3, 3, 3, 3, 3]]> : tensor<4x5xi32>} : () -> tensor<4x5xi32>
    "func.return"(%0, %1) : (tensor<4x5xi32>, tensor<4x5xi32>) -> ()
}

// -----
// iota
func.func @main() -> (tensor<4x5xi32>, tensor<4x5xi32>) {
    %0 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<4x5xi32>
    %1 = "stablehlo.constant"() {value = dense<[[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]> : tensor<4x5xi32>} : () -> tensor<4x5xi32>
    "func.return"(%0, %1) : (tensor<4x5xi32>, tensor<4x5xi32>) -> ()
}

// -----
// is_finite
func.func @main() -> (tensor<7xi1>, tensor<7xi1>) {
    %0 = "stablehlo.constant"() {value = dense<[0xFFF0000000000000, 0x7FF8000000000000, -10.0, -0.0, 0.0, 10.0, 0x7FF0000000000000]> : tensor<7xf64>} : () -> tensor<7xf64>
    %1 = "stablehlo.is_finite"(%0) : (tensor<7xf64>) -> tensor<7xi1>
    %2 = "stablehlo.constant"() {value = dense<[false, false, true, true, true, true, false]> : tensor<7xi1>} : () -> tensor<7xi1>
    "func.return"(%1, %2) : (tensor<7xi1>, tensor<7xi1>) -> ()
}

// -----
// log
func.func @main() -> (tensor<2x2xf64>, tensor<2x2xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    %1 = "stablehlo.log"(%0) : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %2 = "stablehlo.constant"() {value = dense<[[0.0, 0.6931471805599453], [1.0986122886681098, 1.3862943611198906]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    "func.return"(%1, %2) : (tensor<2x2xf64>, tensor<2x2xf64>) -> ()
}

// -----
// log_plus_one
func.func @main() -> (tensor<5xf32>, tensor<5xf32>) {
    %0 = "stablehlo.constant"() {value = dense<[0.0, -0.999, 7.0, 6.38905621, 15.0]> : tensor<5xf32>} : () -> tensor<5xf32>
    %1 = "stablehlo.log_plus_one"(%0) : (tensor<5xf32>) -> tensor<5xf32>
    %2 = "stablehlo.constant"() {value = dense<[0.0, -6.90776825, 2.07944155, 2.0, 2.77258873]> : tensor<5xf32>} : () -> tensor<5xf32>
    "func.return"(%1, %2) : (tensor<5xf32>, tensor<5xf32>) -> ()
}

// -----
// logistic
func.func @main() -> (tensor<2x2xf64>, tensor<2x2xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[[0.0, 1.0], [2.0, 3.0]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    %1 = "stablehlo.logistic"(%0) : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %2 = "stablehlo.constant"() {value = dense<[[0.5, 0.73105858], [0.88079708, 0.95257413]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    "func.return"(%1, %2) : (tensor<2x2xf64>, tensor<2x2xf64>) -> ()
}

// -----
// maximum
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [7, 8]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %1 = "stablehlo.constant"() {value = dense<[[5, 6], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %2 = "stablehlo.maximum"(%0, %1) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    %3 = "stablehlo.constant"() {value = dense<[[5, 6], [7, 8]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%2, %3) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// minimum
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [7, 8]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %1 = "stablehlo.constant"() {value = dense<[[5, 6], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %2 = "stablehlo.minimum"(%0, %1) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    %3 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%2, %3) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// multiply
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %1 = "stablehlo.constant"() {value = dense<[[5, 6], [7, 8]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %2 = "stablehlo.multiply"(%0, %1) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    %3 = "stablehlo.constant"() {value = dense<[[5, 12], [21, 32]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%2, %3) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// negate
func.func @main() -> (tensor<2xi32>, tensor<2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[0, -2]> : tensor<2xi32>} : () -> tensor<2xi32>
    %1 = "stablehlo.negate"(%0) : (tensor<2xi32>) -> tensor<2xi32>
    %2 = "stablehlo.constant"() {value = dense<[0, 2]> : tensor<2xi32>} : () -> tensor<2xi32>
    "func.return"(%1, %2) : (tensor<2xi32>, tensor<2xi32>) -> ()
}

// -----
// not
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %1 = "stablehlo.not"(%0) : (tensor<2x2xi32>) -> tensor<2x2xi32>
    %2 = "stablehlo.constant"() {value = dense<[[-2, -3], [-4, -5]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%1, %2) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// not
func.func @main() -> (tensor<2xi1>, tensor<2xi1>) {
    %0 = "stablehlo.constant"() {value = dense<[true, false]> : tensor<2xi1>} : () -> tensor<2xi1>
    %1 = "stablehlo.not"(%0) : (tensor<2xi1>) -> tensor<2xi1>
    %2 = "stablehlo.constant"() {value = dense<[false, true]> : tensor<2xi1>} : () -> tensor<2xi1>
    "func.return"(%1, %2) : (tensor<2xi1>, tensor<2xi1>) -> ()
}

// -----
// or
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %1 = "stablehlo.constant"() {value = dense<[[5, 6], [7, 8]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %2 = "stablehlo.or"(%0, %1) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    %3 = "stablehlo.constant"() {value = dense<[[5, 6], [7, 12]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%2, %3) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// or
func.func @main() -> (tensor<2x2xi1>, tensor<2x2xi1>) {
    %0 = "stablehlo.constant"() {value = dense<[[false, false], [true, true]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
    %1 = "stablehlo.constant"() {value = dense<[[false, true], [false, true]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
    %2 = "stablehlo.or"(%0, %1) : (tensor<2x2xi1>, tensor<2x2xi1>) -> tensor<2x2xi1>
    %3 = "stablehlo.constant"() {value = dense<[[false, true], [true, true]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
    "func.return"(%2, %3) : (tensor<2x2xi1>, tensor<2x2xi1>) -> ()
}

// -----
// pad
func.func @main() -> (tensor<5x9xi32>, tensor<5x9xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>} : () -> tensor<2x3xi32>
    %1 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %2 = "stablehlo.pad"(%0, %1) {edge_padding_low = array<i64: 0, 1>, edge_padding_high = array<i64: 2, 1>, interior_padding = array<i64: 1, 2>} : (tensor<2x3xi32>, tensor<i32>) -> tensor<5x9xi32>
    %3 = "stablehlo.constant"() {value = dense<[[0, 1, 0, 0, 2, 0, 0, 3, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 4, 0, 0, 5, 0, 0, 6, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0]]> : tensor<5x9xi32>} : () -> tensor<5x9xi32>
    "func.return"(%2, %3) : (tensor<5x9xi32>, tensor<5x9xi32>) -> ()
}

// -----
// popcnt
func.func @main() -> (tensor<4xi64>, tensor<4xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[0, 1, 2, 127]> : tensor<4xi64>} : () -> tensor<4xi64>
    %1 = "stablehlo.popcnt"(%0) : (tensor<4xi64>) -> tensor<4xi64>
    %2 = "stablehlo.constant"() {value = dense<[0, 1, 1, 7]> : tensor<4xi64>} : () -> tensor<4xi64>
    "func.return"(%1, %2) : (tensor<4xi64>, tensor<4xi64>) -> ()
}

// -----
// power
func.func @main() -> (tensor<6xf64>, tensor<6xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[-2.0, -0.0, -36.0, 5.0, 3.0, 10000.0]> : tensor<6xf64>} : () -> tensor<6xf64>
    %1 = "stablehlo.constant"() {value = dense<[2.0, 2.0, 1.1, 2.0, -1.0, 10.0]> : tensor<6xf64>} : () -> tensor<6xf64>
    %2 = "stablehlo.power"(%0, %1) : (tensor<6xf64>, tensor<6xf64>) -> tensor<6xf64>
    %3 = "stablehlo.constant"() {value = dense<[4.0, 0.0, 0x7FF8000000000000, 25.0, 0.3333333333333333, 1.00000000000000003e+40]> : tensor<6xf64>} : () -> tensor<6xf64>
    "func.return"(%2, %3) : (tensor<6xf64>, tensor<6xf64>) -> ()
}

// -----
// reduce
func.func @main() -> (tensor<1xi64>, tensor<1xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[[0, 1, 2, 3, 4, 5]]> : tensor<1x6xi64>} : () -> tensor<1x6xi64>
    %1 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %2 = "stablehlo.reduce"(%0, %1) ({
      ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %c = "stablehlo.add"(%a, %b) : (tensor<i64>, tensor<i64>) -> tensor<i64>
        "stablehlo.return"(%c) : (tensor<i64>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<1x6xi64>, tensor<i64>) -> tensor<1xi64>
    %3 = "stablehlo.constant"() {value = dense<[15]> : tensor<1xi64>} : () -> tensor<1xi64>
    "func.return"(%2, %3) : (tensor<1xi64>, tensor<1xi64>) -> ()
}

// -----
// reduce_precision
func.func @main() -> (tensor<5xf64>, tensor<5xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[0x7FF0000000000000, 0x7FF8000000000000, -0.0, 65519.0, 65520.0]> : tensor<5xf64>} : () -> tensor<5xf64>
    %1 = "stablehlo.reduce_precision"(%0) {exponent_bits = 5 : i64, mantissa_bits = 10 : i64} : (tensor<5xf64>) -> tensor<5xf64>
    %2 = "stablehlo.constant"() {value = dense<[0x7FF0000000000000, 0x7FF8000000000000, -0.0, 65504.0, 0x7FF0000000000000]> : tensor<5xf64>} : () -> tensor<5xf64>
    "func.return"(%1, %2) : (tensor<5xf64>, tensor<5xf64>) -> ()
}

// -----
// remainder
func.func @main() -> (tensor<4xi64>, tensor<4xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[17, -17, 17, -17]> : tensor<4xi64>} : () -> tensor<4xi64>
    %1 = "stablehlo.constant"() {value = dense<[3, 3, -3, -3]> : tensor<4xi64>} : () -> tensor<4xi64>
    %2 = "stablehlo.remainder"(%0, %1) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
    %3 = "stablehlo.constant"() {value = dense<[2, -2, 2, -2]> : tensor<4xi64>} : () -> tensor<4xi64>
    "func.return"(%2, %3) : (tensor<4xi64>, tensor<4xi64>) -> ()
}

// -----
// reshape
func.func @main() -> (tensor<3x2xi32>, tensor<3x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>} : () -> tensor<2x3xi32>
    %1 = "stablehlo.reshape"(%0) : (tensor<2x3xi32>) -> tensor<3x2xi32>
    %2 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>} : () -> tensor<3x2xi32>
    "func.return"(%1, %2) : (tensor<3x2xi32>, tensor<3x2xi32>) -> ()
}

// -----
// reverse
func.func @main() -> (tensor<3x2xi32>, tensor<3x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>} : () -> tensor<3x2xi32>
    %1 = "stablehlo.reverse"(%0) {dimensions = array<i64: 1>} : (tensor<3x2xi32>) -> tensor<3x2xi32>
    %2 = "stablehlo.constant"() {value = dense<[[2, 1], [4, 3], [6, 5]]> : tensor<3x2xi32>} : () -> tensor<3x2xi32>
    "func.return"(%1, %2) : (tensor<3x2xi32>, tensor<3x2xi32>) -> ()
}

// -----
// round_nearest_afz
func.func @main() -> (tensor<5xf64>, tensor<5xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[-2.5, 0.4, 0.5, 0.6, 2.5]> : tensor<5xf64>} : () -> tensor<5xf64>
    %1 = "stablehlo.round_nearest_afz"(%0) : (tensor<5xf64>) -> tensor<5xf64>
    %2 = "stablehlo.constant"() {value = dense<[-3.0, 0.0, 1.0, 1.0, 3.0]> : tensor<5xf64>} : () -> tensor<5xf64>
    "func.return"(%1, %2) : (tensor<5xf64>, tensor<5xf64>) -> ()
}

// -----
// round_nearest_even
func.func @main() -> (tensor<5xf64>, tensor<5xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[-2.5, 0.4, 0.5, 0.6, 2.5]> : tensor<5xf64>} : () -> tensor<5xf64>
    %1 = "stablehlo.round_nearest_even"(%0) : (tensor<5xf64>) -> tensor<5xf64>
    %2 = "stablehlo.constant"() {value = dense<[-2.0, 0.0, 0.0, 1.0, 2.0]> : tensor<5xf64>} : () -> tensor<5xf64>
    "func.return"(%1, %2) : (tensor<5xf64>, tensor<5xf64>) -> ()
}

// -----
// rsqrt
func.func @main() -> (tensor<2x2xf64>, tensor<2x2xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[[1.0, 4.0], [9.0, 25.0]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    %1 = "stablehlo.rsqrt"(%0) : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %2 = "stablehlo.constant"() {value = dense<[[1.0, 0.5], [0.3333333333333333, 0.2]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    "func.return"(%1, %2) : (tensor<2x2xf64>, tensor<2x2xf64>) -> ()
}

// -----
// scatter
func.func @main() -> (tensor<2x3x4x2xi64>, tensor<2x3x4x2xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[[[[1, 2], [3, 4], [5, 6], [7, 8]], [[9, 10], [11, 12], [13, 14], [15, 16]], [[17, 18], [19, 20], [21, 22], [23, 24]]], [[[25, 26], [27, 28], [29, 30], [31, 32]], [[33, 34], [35, 36], [37, 38], [39, 40]], [[41, 42], [43, 44], [45, 46], [47, 48]]]]> : tensor<2x3x4x2xi64>} : () -> tensor<2x3x4x2xi64>
    %1 = "stablehlo.constant"() {value = dense<[[[[0, 0], [1, 0], [2, 1]], [[0, 1], [1, 1], [0, 9]]], [[[0, 0], [2, 1], [2, 2]], [[1, 2], [0, 1], [1, 0]]]]> : tensor<2x2x3x2xi64>} : () -> tensor<2x2x3x2xi64>
    %2 = "stablehlo.constant"() {value = dense<[[[[[1, 1], [1, 1]], [[1, 1], [1, 1]], [[1, 1], [1, 1]]], [[[1, 1], [1, 1]], [[1, 1], [1, 1]], [[1, 1], [1, 1]]]], [[[[1, 1], [1, 1]], [[1, 1], [1, 1]], [[1, 1], [1, 1]]], [[[1, 1], [1, 1]], [[1, 1], [1, 1]], [[1, 1], [1, 1]]]]]> : tensor<2x2x3x2x2xi64>} : () -> tensor<2x2x3x2x2xi64>
    %3 = "stablehlo.scatter"(%0, %1, %2) ({
      ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %c = "stablehlo.add"(%a, %b) : (tensor<i64>, tensor<i64>) -> tensor<i64>
        "stablehlo.return"(%c) : (tensor<i64>) -> ()
    }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [3, 4], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 3>, indices_are_sorted = false, unique_indices = false} : (tensor<2x3x4x2xi64>, tensor<2x2x3x2xi64>, tensor<2x2x3x2x2xi64>) -> tensor<2x3x4x2xi64>
    %4 = "stablehlo.constant"() {value = dense<[[[[3, 4], [6, 7], [6, 7], [7, 8]], [[9, 10], [11, 12], [15, 16], [17, 18]], [[17, 18], [19, 20], [22, 23], [24, 25]]], [[[25, 26], [28, 29], [30, 31], [31, 32]], [[35, 36], [38, 39], [38, 39], [39, 40]], [[41, 42], [44, 45], [46, 47], [47, 48]]]]> : tensor<2x3x4x2xi64>} : () -> tensor<2x3x4x2xi64>
    "func.return"(%3, %4) : (tensor<2x3x4x2xi64>, tensor<2x3x4x2xi64>) -> ()
}

// -----
// select
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[false, true], [true, false]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
    %1 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %2 = "stablehlo.constant"() {value = dense<[[5, 6], [7, 8]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %3 = "stablehlo.select"(%0, %1, %2) : (tensor<2x2xi1>, tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    %4 = "stablehlo.constant"() {value = dense<[[5, 2], [3, 8]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%3, %4) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// shift_left
func.func @main() -> (tensor<3xi64>, tensor<3xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[-1, 0, 1]> : tensor<3xi64>} : () -> tensor<3xi64>
    %1 = "stablehlo.constant"() {value = dense<[1, 2, 3]> : tensor<3xi64>} : () -> tensor<3xi64>
    %2 = "stablehlo.shift_left"(%0, %1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %3 = "stablehlo.constant"() {value = dense<[-2, 0, 8]> : tensor<3xi64>} : () -> tensor<3xi64>
    "func.return"(%2, %3) : (tensor<3xi64>, tensor<3xi64>) -> ()
}

// -----
// shift_right_arithmetic
func.func @main() -> (tensor<3xi64>, tensor<3xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[-1, 0, 8]> : tensor<3xi64>} : () -> tensor<3xi64>
    %1 = "stablehlo.constant"() {value = dense<[1, 2, 3]> : tensor<3xi64>} : () -> tensor<3xi64>
    %2 = "stablehlo.shift_right_arithmetic"(%0, %1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %3 = "stablehlo.constant"() {value = dense<[-1, 0, 1]> : tensor<3xi64>} : () -> tensor<3xi64>
    "func.return"(%2, %3) : (tensor<3xi64>, tensor<3xi64>) -> ()
}

// -----
// shift_right_logical
func.func @main() -> (tensor<3xi64>, tensor<3xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[-1, 0, 8]> : tensor<3xi64>} : () -> tensor<3xi64>
    %1 = "stablehlo.constant"() {value = dense<[1, 2, 3]> : tensor<3xi64>} : () -> tensor<3xi64>
    %2 = "stablehlo.shift_right_logical"(%0, %1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %3 = "stablehlo.constant"() {value = dense<[9223372036854775807, 0, 1]> : tensor<3xi64>} : () -> tensor<3xi64>
    "func.return"(%2, %3) : (tensor<3xi64>, tensor<3xi64>) -> ()
}

// -----
// sign
func.func @main() -> (tensor<5xf64>, tensor<5xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[0x7FF8000000000000, -1.0, -0.0, 0.0, 1.0]> : tensor<5xf64>} : () -> tensor<5xf64>
    %1 = "stablehlo.sign"(%0) : (tensor<5xf64>) -> tensor<5xf64>
    %2 = "stablehlo.constant"() {value = dense<[0x7FF8000000000000, -1.0, -0.0, 0.0, 1.0]> : tensor<5xf64>} : () -> tensor<5xf64>
    "func.return"(%1, %2) : (tensor<5xf64>, tensor<5xf64>) -> ()
}

// -----
// sine
func.func @main() -> (tensor<2x2xf64>, tensor<2x2xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[[0.0, 1.57079632], [3.14159265, 4.71238898]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    %1 = "stablehlo.sine"(%0) : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %2 = "stablehlo.constant"() {value = dense<[[0.0, 1.0], [3.58978999999999986e-09, -1.0]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    "func.return"(%1, %2) : (tensor<2x2xf64>, tensor<2x2xf64>) -> ()
}

// -----
// slice
func.func @main() -> (tensor<2x2xi64>, tensor<2x2xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]> : tensor<3x4xi64>} : () -> tensor<3x4xi64>
    %1 = "stablehlo.slice"(%0) {start_indices = array<i64: 1, 2>, limit_indices = array<i64: 3, 4>, strides = array<i64: 1, 1>} : (tensor<3x4xi64>) -> tensor<2x2xi64>
    %2 = "stablehlo.constant"() {value = dense<[[1, 1], [1, 1]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
    "func.return"(%1, %2) : (tensor<2x2xi64>, tensor<2x2xi64>) -> ()
}

// -----
// sort
func.func @main() -> (tensor<2x3xi64>, tensor<2x3xi64>, tensor<2x3xi64>, tensor<2x3xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2, 3], [3, 2, 1]]> : tensor<2x3xi64>} : () -> tensor<2x3xi64>
    %1 = "stablehlo.constant"() {value = dense<[[3, 2, 1], [1, 2, 3]]> : tensor<2x3xi64>} : () -> tensor<2x3xi64>
    %2:2 = "stablehlo.sort"(%0, %1) ({
      ^bb0(%a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>, %d: tensor<i64>):
        %e = "stablehlo.compare"(%a, %b) {comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<i64>, tensor<i64>) -> tensor<i1>
        "stablehlo.return"(%e) : (tensor<i1>) -> ()
    }) {dimension = 0 : i64, is_stable = true} : (tensor<2x3xi64>, tensor<2x3xi64>) -> (tensor<2x3xi64>, tensor<2x3xi64>)
    %3 = "stablehlo.constant"() {value = dense<[[3, 2, 3], [1, 2, 1]]> : tensor<2x3xi64>} : () -> tensor<2x3xi64>
    %4 = "stablehlo.constant"() {value = dense<[[1, 2, 1], [3, 2, 3]]> : tensor<2x3xi64>} : () -> tensor<2x3xi64>
    "func.return"(%2#0, %3, %2#1, %4) : (tensor<2x3xi64>, tensor<2x3xi64>, tensor<2x3xi64>, tensor<2x3xi64>) -> ()
}

// -----
// sqrt
func.func @main() -> (tensor<2x2xf32>, tensor<2x2xf32>) {
    %0 = "stablehlo.constant"() {value = dense<[[0.0, 1.0], [4.0, 9.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
    %1 = "stablehlo.sqrt"(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %2 = "stablehlo.constant"() {value = dense<[[0.0, 1.0], [2.0, 3.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
    "func.return"(%1, %2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----
// subtract
func.func @main() -> (tensor<2x2xf32>, tensor<2x2xf32>) {
    %0 = "stablehlo.constant"() {value = dense<[[6.0, 8.0], [10.0, 12.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
    %1 = "stablehlo.constant"() {value = dense<[[5.0, 6.0], [7.0, 8.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
    %2 = "stablehlo.subtract"(%0, %1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %3 = "stablehlo.constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
    "func.return"(%2, %3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----
// tan
func.func @main() -> (tensor<2x2xf64>, tensor<2x2xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[[0.0, 1.0471975511965976], [3.141592653589793, 0.7853981633974483]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    %1 = "stablehlo.tan"(%0) : (tensor<2x2xf64>) -> tensor<2x2xf64>
    %2 = "stablehlo.constant"() {value = dense<[[0.0, 1.7320508075688767], [-1.22464679914735321e-16, 1.0]]> : tensor<2x2xf64>} : () -> tensor<2x2xf64>
    "func.return"(%1, %2) : (tensor<2x2xf64>, tensor<2x2xf64>) -> ()
}

// -----
// tanh
func.func @main() -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = "stablehlo.constant"() {value = dense<[-1.0, 0.0, 1.0]> : tensor<3xf32>} : () -> tensor<3xf32>
    %1 = "stablehlo.tanh"(%0) : (tensor<3xf32>) -> tensor<3xf32>
    %2 = "stablehlo.constant"() {value = dense<[-0.76159416, 0.0, 0.76159416]> : tensor<3xf32>} : () -> tensor<3xf32>
    "func.return"(%1, %2) : (tensor<3xf32>, tensor<3xf32>) -> ()
}

// -----
// transpose
func.func @main() -> (tensor<2x3x2xi32>, tensor<2x3x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]> : tensor<2x3x2xi32>} : () -> tensor<2x3x2xi32>
    %1 = "stablehlo.transpose"(%0) {permutation = array<i64: 2, 1, 0>} : (tensor<2x3x2xi32>) -> tensor<2x3x2xi32>
    %2 = "stablehlo.constant"() {value = dense<[[[1, 7], [3, 9], [5, 11]], [[2, 8], [4, 10], [6, 12]]]> : tensor<2x3x2xi32>} : () -> tensor<2x3x2xi32>
    "func.return"(%1, %2) : (tensor<2x3x2xi32>, tensor<2x3x2xi32>) -> ()
}

// -----
// xor
func.func @main() -> (tensor<2x2xi32>, tensor<2x2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %1 = "stablehlo.constant"() {value = dense<[[5, 6], [7, 8]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %2 = "stablehlo.xor"(%0, %1) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    %3 = "stablehlo.constant"() {value = dense<[[4, 4], [4, 12]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    "func.return"(%2, %3) : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
}

// -----
// xor
func.func @main() -> (tensor<2x2xi1>, tensor<2x2xi1>) {
    %0 = "stablehlo.constant"() {value = dense<[[false, false], [true, true]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
    %1 = "stablehlo.constant"() {value = dense<[[false, true], [false, true]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
    %2 = "stablehlo.xor"(%0, %1) : (tensor<2x2xi1>, tensor<2x2xi1>) -> tensor<2x2xi1>
    %3 = "stablehlo.constant"() {value = dense<[[false, true], [true, false]]> : tensor<2x2xi1>} : () -> tensor<2x2xi1>
    "func.return"(%2, %3) : (tensor<2x2xi1>, tensor<2x2xi1>) -> ()
}

// -----
// erf
func.func @main() -> (tensor<3xf64>, tensor<3xf64>) {
    %0 = "stablehlo.constant"() {value = dense<[0.0, 0.5, -1.0]> : tensor<3xf64>} : () -> tensor<3xf64>
    %1 = "chlo.erf"(%0) : (tensor<3xf64>) -> tensor<3xf64>
    %2 = "stablehlo.constant"() {value = dense<[0.0, 0.5204998778130465, -0.8427007929497149]> : tensor<3xf64>} : () -> tensor<3xf64>
    "func.return"(%1, %2) : (tensor<3xf64>, tensor<3xf64>) -> ()
}

// -----
// top_k
func.func @main() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) {
    %0 = "stablehlo.constant"() {value = dense<[0.1, 0.3, 0.2]> : tensor<3xf32>} : () -> tensor<3xf32>
    %1:2 = "chlo.top_k"(%0) {k = 2 : i64} : (tensor<3xf32>) -> (tensor<2xf32>, tensor<2xi32>)
    %2 = "stablehlo.constant"() {value = dense<[0.3, 0.2]> : tensor<2xf32>} : () -> tensor<2xf32>
    %3 = "stablehlo.constant"() {value = dense<[1, 2]> : tensor<2xi32>} : () -> tensor<2xi32>
    "func.return"(%1#0, %2, %1#1, %3) : (tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) -> ()
}

// -----
// case
func.func @main() -> (tensor<2xi64>, tensor<2xi64>) {
    %0 = "stablehlo.constant"() {value = dense<-1> : tensor<i32>} : () -> tensor<i32>
    %1 = "stablehlo.case"(%0) ({
      ^bb0:
        %b = "stablehlo.constant"() {value = dense<0> : tensor<2xi64>} : () -> tensor<2xi64>
        "stablehlo.return"(%b) : (tensor<2xi64>) -> ()
    }, {
      ^bb0:
        %b = "stablehlo.constant"() {value = dense<1> : tensor<2xi64>} : () -> tensor<2xi64>
        "stablehlo.return"(%b) : (tensor<2xi64>) -> ()
    }) : (tensor<i32>) -> tensor<2xi64>
    %2 = "stablehlo.constant"() {value = dense<[1, 1]> : tensor<2xi64>} : () -> tensor<2xi64>
    "func.return"(%1, %2) : (tensor<2xi64>, tensor<2xi64>) -> ()
}

// -----
// if
func.func @main() -> (tensor<2xi64>, tensor<2xi64>) {
    %0 = "stablehlo.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    %1 = "stablehlo.if"(%0) ({
      ^bb0:
        %b = "stablehlo.constant"() {value = dense<0> : tensor<2xi64>} : () -> tensor<2xi64>
        "stablehlo.return"(%b) : (tensor<2xi64>) -> ()
    }, {
      ^bb0:
        %b = "stablehlo.constant"() {value = dense<1> : tensor<2xi64>} : () -> tensor<2xi64>
        "stablehlo.return"(%b) : (tensor<2xi64>) -> ()
    }) : (tensor<i1>) -> tensor<2xi64>
    %2 = "stablehlo.constant"() {value = dense<[0, 0]> : tensor<2xi64>} : () -> tensor<2xi64>
    "func.return"(%1, %2) : (tensor<2xi64>, tensor<2xi64>) -> ()
}

// -----
// while
func.func @main() -> (tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) {
    %0 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %1 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %2:2 = "stablehlo.while"(%0, %1) ({
      ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %c = "stablehlo.constant"() {value = dense<10> : tensor<i64>} : () -> tensor<i64>
        %d = "stablehlo.compare"(%a, %c) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i64>, tensor<i64>) -> tensor<i1>
        "stablehlo.return"(%d) : (tensor<i1>) -> ()
    }, {
      ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %c = "stablehlo.constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
        %d = "stablehlo.add"(%b, %c) : (tensor<i64>, tensor<i64>) -> tensor<i64>
        %e = "stablehlo.add"(%a, %c) : (tensor<i64>, tensor<i64>) -> tensor<i64>
        "stablehlo.return"(%e, %d) : (tensor<i64>, tensor<i64>) -> ()
    }) : (tensor<i64>, tensor<i64>) -> (tensor<i64>, tensor<i64>)
    %3 = "stablehlo.constant"() {value = dense<10> : tensor<i64>} : () -> tensor<i64>
    %4 = "stablehlo.constant"() {value = dense<10> : tensor<i64>} : () -> tensor<i64>
    "func.return"(%2#0, %3, %2#1, %4) : (tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> ()
}

// -----
// convolution
func.func @main() -> (tensor<1x2x2x1xi64>, tensor<1x2x2x1xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[[[[1], [2], [5], [6]], [[3], [4], [7], [8]], [[10], [11], [14], [15]], [[12], [13], [16], [17]]]]> : tensor<1x4x4x1xi64>} : () -> tensor<1x4x4x1xi64>
    %1 = "stablehlo.constant"() {value = dense<[[[[1]], [[1]], [[1]]], [[[1]], [[1]], [[1]]], [[[1]], [[1]], [[1]]]]> : tensor<3x3x1x1xi64>} : () -> tensor<3x3x1x1xi64>
    %2 = "stablehlo.convolution"(%0, %1) {window_strides = array<i64: 4, 4>, padding = array<i64: 0, 0, 0, 0>, lhs_dilation = array<i64: 2, 2>, rhs_dilation = array<i64: 1, 1>, window_reversal = array<i64: 0, 0>, convolution_dimensions = array<i64: 0, 3, 1, 2, 2, 3, 0, 1, 0, 3, 1, 2>, feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x4x4x1xi64>, tensor<3x3x1x1xi64>) -> tensor<1x2x2x1xi64>
    %3 = "stablehlo.constant"() {value = dense<[[[[10], [26]], [[46], [62]]]]> : tensor<1x2x2x1xi64>} : () -> tensor<1x2x2x1xi64>
    "func.return"(%2, %3) : (tensor<1x2x2x1xi64>, tensor<1x2x2x1xi64>) -> ()
}

// -----
// reduce_window
func.func @main() -> (tensor<2x2xi64>, tensor<2x2xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi64>} : () -> tensor<3x2xi64>
    %1 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %2 = "stablehlo.reduce_window"(%0, %1) ({
      ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %c = "stablehlo.add"(%a, %b) : (tensor<i64>, tensor<i64>) -> tensor<i64>
        "stablehlo.return"(%c) : (tensor<i64>) -> ()
    }) {window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 4, 1>, base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 3, 1>, padding = array<i64: 2, 1, 0, 0>} : (tensor<3x2xi64>, tensor<i64>) -> tensor<2x2xi64>
    %3 = "stablehlo.constant"() {value = dense<[[0, 0], [3, 4]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
    "func.return"(%2, %3) : (tensor<2x2xi64>, tensor<2x2xi64>) -> ()
}

// -----
// select_and_scatter
func.func @main() -> (tensor<4x2xi64>, tensor<4x2xi64>) {
    %0 = "stablehlo.constant"() {value = dense<[[1, 5], [2, 5], [3, 6], [4, 4]]> : tensor<4x2xi64>} : () -> tensor<4x2xi64>
    %1 = "stablehlo.constant"() {value = dense<[[5, 6], [7, 8]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
    %2 = "stablehlo.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %3 = "stablehlo.select_and_scatter"(%0, %1, %2) ({
      ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %c = "stablehlo.compare"(%a, %b) {comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<i64>, tensor<i64>) -> tensor<i1>
        "stablehlo.return"(%c) : (tensor<i1>) -> ()
    }, {
      ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %c = "stablehlo.add"(%a, %b) : (tensor<i64>, tensor<i64>) -> tensor<i64>
        "stablehlo.return"(%c) : (tensor<i64>) -> ()
    }) {window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>, padding = array<i64: 0, 1, 0, 0>} : (tensor<4x2xi64>, tensor<2x2xi64>, tensor<i64>) -> tensor<4x2xi64>
    %4 = "stablehlo.constant"() {value = dense<[[0, 0], [0, 0], [5, 14], [7, 0]]> : tensor<4x2xi64>} : () -> tensor<4x2xi64>
    "func.return"(%3, %4) : (tensor<4x2xi64>, tensor<4x2xi64>) -> ()
}
