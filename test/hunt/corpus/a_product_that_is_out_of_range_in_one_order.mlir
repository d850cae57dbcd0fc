# way api
# seed 800068386
# 5 workers, as a loop: output 6 (uint8[]), element 0 is 2, not 0 (± 0)
# input 5c34babe6bb90cbeef3fe7bc11bd9c3d8030d5bc08ba8e3f
# input d64a
module {
  func.func @main(%0: tensor<6x2xf16>, %1: tensor<f16>) -> (tensor<ui8>, tensor<f16>) {
    %2 = "stablehlo.reduce"(%0, %1) ({
      ^bb0(%a0: tensor<f16>, %a1: tensor<f16>):
        %a2 = "stablehlo.multiply"(%a0, %a1) : (tensor<f16>, tensor<f16>) -> tensor<f16>
        "stablehlo.return"(%a2) : (tensor<f16>) -> ()
    }) {dimensions = array<i64: 1, 0>} : (tensor<6x2xf16>, tensor<f16>) -> tensor<f16>
    %3 = "stablehlo.tan"(%2) : (tensor<f16>) -> tensor<f16>
    %4 = "stablehlo.dot_general"(%2, %2) {dot_dimension_numbers = #stablehlo.dot<>} : (tensor<f16>, tensor<f16>) -> tensor<f16>
    %5 = "stablehlo.convert"(%3) : (tensor<f16>) -> tensor<ui8>
    "func.return"(%5, %4) : (tensor<ui8>, tensor<f16>) -> ()
  }
}
