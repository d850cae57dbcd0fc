# way gradient
# seed 1
# output 0: the gradient went to the first element instead of the last
# input 000000000000f03f000000000000004000000000000008400000000000001040
# input 05000000000000800100000000000000
module {
  func.func @main(%0: tensor<4xf64>, %1: tensor<2xui64>) -> (tensor<2xf64>) {
    %2 = "stablehlo.gather"(%0, %1) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>, indices_are_sorted = false} : (tensor<4xf64>, tensor<2xui64>) -> tensor<2xf64>
    "func.return"(%2) : (tensor<2xf64>) -> ()
  }
}
