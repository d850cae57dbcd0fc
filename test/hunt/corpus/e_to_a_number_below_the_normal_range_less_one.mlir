# way cpu
# seed 350014614
# base, 1 threads: output 0 (float64[3]), element 0 is 2.2852314756482681e-318, not 2.2852364163047265e-318 (± 0)
# input c90e07000000000000000000000000806480081fee98f73f
module {
  func.func @main(%0: tensor<3xf64>) -> (tensor<3xf64>) {
    %1 = "stablehlo.exponential_minus_one"(%0) : (tensor<3xf64>) -> tensor<3xf64>
    "func.return"(%1) : (tensor<3xf64>) -> ()
  }
}
