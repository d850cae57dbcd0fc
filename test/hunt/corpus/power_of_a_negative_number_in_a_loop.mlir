# way gradient
# seed 99693758
# gradient: the slope is -nan, differences say 0 (± 7.55e-11)
# input f62ff5363f5ff1bf55e663def05f3240a68ac7e997f1f1bf404fbe392623d03f80e992bbfd75d33ffe556ef5bb0afa3fde6361d91db82d4004f8af49c7d2e83f8cae5cd5ecc2f6bf7cf153ee41240240be51e3d18ae0f8bf68d2cce7e88ddc3ff4bcc37df6c9f7bff256f8c99c70ff3fe01bfe5ed1ffb3bff83fd278fdf5e43fd86635d11143dd3f409622c3eae3b33fea69682d939531c06e99f6a5cd86f53f4825ea2a6ec7e53fc0859bd99d5daf3f680f49030972f3bfe4490d72f375e4bf9877133e86fad5bf407fc7b1cf6dcebf160a04b0d7cdf53fe05ac3b86abae2bfb43b550e1d6ae33fe4de73ecc76df5bff08e37cd5e2af5bf5ebb673134e9febf
# input 000000000000004000000000000008400000000000001040000000000000144000000000000018400000000000001c4000000000000020400000000000002240000000000000f03f000000000000004000000000000008400000000000001040000000000000144000000000000018400000000000001c4000000000000020400000000000002240000000000000f03f000000000000004000000000000008400000000000001040000000000000144000000000000018400000000000001c4000000000000020400000000000002240000000000000f03f00000000000000400000000000000840000000000000104000000000000014400000000000001840
module {
  func.func @main(%0: tensor<1x32xf64>, %1: tensor<32xf64>) -> (tensor<1x32xf64>) {
    %2 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<32x1xf64>
    %3 = "stablehlo.dot_general"(%2, %1) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0]>} : (tensor<32x1xf64>, tensor<32xf64>) -> tensor<32x1xf64>
    %4 = "stablehlo.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %5:3 = "stablehlo.while"(%4, %3, %0) ({
      ^bb0(%a0: tensor<i32>, %a1: tensor<32x1xf64>, %a2: tensor<1x32xf64>):
        %a3 = "stablehlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
        %a4 = "stablehlo.compare"(%a0, %a3) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        "stablehlo.return"(%a4) : (tensor<i1>) -> ()
    }, {
      ^bb0(%a0: tensor<i32>, %a1: tensor<32x1xf64>, %a2: tensor<1x32xf64>):
        %a3 = "stablehlo.constant"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
        %a4 = "stablehlo.add"(%a0, %a3) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        %a5 = "stablehlo.reshape"(%a1) : (tensor<32x1xf64>) -> tensor<1x32xf64>
        %a6 = "stablehlo.power"(%a2, %a5) : (tensor<1x32xf64>, tensor<1x32xf64>) -> tensor<1x32xf64>
        "stablehlo.return"(%a4, %a1, %a6) : (tensor<i32>, tensor<32x1xf64>, tensor<1x32xf64>) -> ()
    }) : (tensor<i32>, tensor<32x1xf64>, tensor<1x32xf64>) -> (tensor<i32>, tensor<32x1xf64>, tensor<1x32xf64>)
    "func.return"(%5#2) : (tensor<1x32xf64>) -> ()
  }
}
