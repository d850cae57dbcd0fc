# way render
# seed 300002095
# found by the hunt
# input 003c00400042
module {
  func.func @main(%0: tensor<1x3x1xf16>) -> (tensor<1x9x1xf16>) {
    %1 = "stablehlo.concatenate"(%0, %0, %0) {dimension = 1 : i64} : (tensor<1x3x1xf16>, tensor<1x3x1xf16>, tensor<1x3x1xf16>) -> tensor<1x9x1xf16>
    %2 = "shoal.softmax"(%1) {dimension = 0 : i64} : (tensor<1x9x1xf16>) -> tensor<1x9x1xf16>
    "func.return"(%2) : (tensor<1x9x1xf16>) -> ()
  }
}
