# way numpy
# seed 99778894
# NumPy: output 0 (bool[1, 6, 6, 8]), element 237 is 1, not 0 (± 0)
# input d7b4303ae33c78bef33c28b1023d7ac69b3ee73048b183b28b32b436563ffaa8b1bc46b6b53cad3a7236b5b971bfbd380db11f3e533dc2bc5d3e7db8e83d5e3fb22f7dbfccbfe23f0fb76231023eebb7ae3c38b3d8c938be503b5f3ee7bc40b975bc58320fbf37bee73c20be88afbdbbc4bd703cc2be41ac4abf19cccc44e3308739a0b44abe19bc49bf78bfdc3fcb3292ba113f67bfb6bf0ebdf8cb19ade6b8cc3f8aaeb2be5f3b60392cbab13b203d5846c7383cbec2393cccacb80c1b68bfe83ce4bfac3e81bc7d4c153c0636403c652a853417bd2339793aabbd1a33d83c4139433d39bd19bf423bb1b63fbcf8b9a5b00abe71b8bcbfcfba68394ec076c5fcbfea3cbf3ef435313fe9b8653ce7bec33a703dc4cbe63bd73d3db806be923d21bf4dc9a23b384c6f3bb4bb07bca13ef2ba084938c270be8fb9663729bf60b9ddc92ebcf8ba68b775b1003d49b967c81d37cbbcbd3e633d9bbd7b3d1b3c363d013ee934d5c28c3d63bbbebc6749783876b13a30d94c6643cb33f7b665ba5cbbf4be9f48863fbb2ee43d23be40350a3f69b69bbf60b4a53c0835aabe3530d03a2935c235c5b2e8bd953c3538deb45e3e5d3d35baa34488bcdba9c4bd0b3b5fca562916bea736883bc0be08bf30cbedbe223f3d3e913c603c6e9e61b5da4a83bf1149cc49f0af63bd483d1e2bab2c94adc4beb73d182a612ebfb95b3f0e250741bf37e0bad1486b3e4eb4973a6534833ec13d33b58f36f0beb8ba68bd00399bbe53331aaf2b31c43a8cbdb8c644bb4f3ea239e53deabe1bbfa237d73eb3404ccb
# input 0100008000000080aec4ae0acc6e41f3cca3da0605000000
# input 1698debfc1fa5e3d3512ef3e0e5383bf
module {
  func.func @main(%0: tensor<1x6x6x8xf16>, %1: tensor<6xi32>, %2: tensor<4xf32>) -> (tensor<1x6x6x8xi1>) {
    %3 = "shoal.rope"(%0, %1, %2) {dimension = 1 : i64, theta = 5.0e+02 : f64, interleaved = true} : (tensor<1x6x6x8xf16>, tensor<6xi32>, tensor<4xf32>) -> tensor<1x6x6x8xf16>
    %4 = "stablehlo.compare"(%3, %0) {comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<1x6x6x8xf16>, tensor<1x6x6x8xf16>) -> tensor<1x6x6x8xi1>
    "func.return"(%4) : (tensor<1x6x6x8xi1>) -> ()
  }
}
