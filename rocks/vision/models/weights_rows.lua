-- weights_rows.lua - the weights that torchvision 0.29 publishes for its models, by task. The line
-- of a model has its name, the name of its weights before "_Weights", the number of its parameters,
-- and the smallest height and width of its input, 1 by default. A line below it is for one file:
-- the name of the weights, with * if they are the default of several, the file's name without
-- ".pth", and the sizes and statistics with which images are prepared where they are not the usual
-- ones of the task. These may continue on the next line.

local M = {}

M.classification = [[
alexnet AlexNet params=61100840 min=63
  IMAGENET1K_V1 alexnet-owt-7be5be79 crop=224
convnext_base ConvNeXt_Base params=88591464 min=32
  IMAGENET1K_V1 convnext_base-6075fbad crop=224 resize=232
convnext_large ConvNeXt_Large params=197767336 min=32
  IMAGENET1K_V1 convnext_large-ea097f82 crop=224 resize=232
convnext_small ConvNeXt_Small params=50223688 min=32
  IMAGENET1K_V1 convnext_small-0c510722 crop=224 resize=230
convnext_tiny ConvNeXt_Tiny params=28589128 min=32
  IMAGENET1K_V1 convnext_tiny-983f1562 crop=224 resize=236
densenet121 DenseNet121 params=7978856 min=29
  IMAGENET1K_V1 densenet121-a639ec97 crop=224
densenet161 DenseNet161 params=28681000 min=29
  IMAGENET1K_V1 densenet161-8d451a50 crop=224
densenet169 DenseNet169 params=14149480 min=29
  IMAGENET1K_V1 densenet169-b2777c0a crop=224
densenet201 DenseNet201 params=20013928 min=29
  IMAGENET1K_V1 densenet201-c1103571 crop=224
efficientnet_b0 EfficientNet_B0 params=5288548
  IMAGENET1K_V1 efficientnet_b0_rwightman-7f5810bc crop=224 bicubic
efficientnet_b1 EfficientNet_B1 params=7794184
  IMAGENET1K_V1 efficientnet_b1_rwightman-bac287d4 crop=240 bicubic
  IMAGENET1K_V2* efficientnet_b1-c27df63c crop=240 resize=255
efficientnet_b2 EfficientNet_B2 params=9109994
  IMAGENET1K_V1 efficientnet_b2_rwightman-c35c1473 crop=288 resize=288 bicubic
efficientnet_b3 EfficientNet_B3 params=12233232
  IMAGENET1K_V1 efficientnet_b3_rwightman-b3899882 crop=300 resize=320 bicubic
efficientnet_b4 EfficientNet_B4 params=19341616
  IMAGENET1K_V1 efficientnet_b4_rwightman-23ab8bcd crop=380 resize=384 bicubic
efficientnet_b5 EfficientNet_B5 params=30389784
  IMAGENET1K_V1 efficientnet_b5_lukemelas-1a07897c crop=456 resize=456 bicubic
efficientnet_b6 EfficientNet_B6 params=43040704
  IMAGENET1K_V1 efficientnet_b6_lukemelas-24a108a5 crop=528 resize=528 bicubic
efficientnet_b7 EfficientNet_B7 params=66347960
  IMAGENET1K_V1 efficientnet_b7_lukemelas-c5b4e57e crop=600 resize=600 bicubic
efficientnet_v2_l EfficientNet_V2_L params=118515272 min=33
  IMAGENET1K_V1 efficientnet_v2_l-59c71312 crop=480 resize=480 bicubic mean=0.5 std=0.5
efficientnet_v2_m EfficientNet_V2_M params=54139356 min=33
  IMAGENET1K_V1 efficientnet_v2_m-dc08266a crop=480 resize=480
efficientnet_v2_s EfficientNet_V2_S params=21458488 min=33
  IMAGENET1K_V1 efficientnet_v2_s-dd5fe13b crop=384 resize=384
googlenet GoogLeNet params=6624904 min=15
  IMAGENET1K_V1 googlenet-1378be20 crop=224
inception_v3 Inception_V3 params=27161264 min=75
  IMAGENET1K_V1 inception_v3_google-0cc3c7bd crop=299 resize=342
maxvit_t MaxVit_T params=30919624 min=224
  IMAGENET1K_V1 maxvit_t-bc5ab103 crop=224 resize=224 bicubic
mnasnet0_5 MNASNet0_5 params=2218512
  IMAGENET1K_V1 mnasnet0.5_top1_67.823-3ffadce67e crop=224
mnasnet0_75 MNASNet0_75 params=3170208
  IMAGENET1K_V1 mnasnet0_75-7090bc5f crop=224 resize=232
mnasnet1_0 MNASNet1_0 params=4383312
  IMAGENET1K_V1 mnasnet1.0_top1_73.512-f206786ef8 crop=224
mnasnet1_3 MNASNet1_3 params=6282256
  IMAGENET1K_V1 mnasnet1_3-a4c69d6f crop=224 resize=232
mobilenet_v2 MobileNet_V2 params=3504872
  IMAGENET1K_V1 mobilenet_v2-b0353104 crop=224
  IMAGENET1K_V2* mobilenet_v2-7ebf99e0 crop=224 resize=232
mobilenet_v3_large MobileNet_V3_Large params=5483032
  IMAGENET1K_V1 mobilenet_v3_large-8738ca79 crop=224
  IMAGENET1K_V2* mobilenet_v3_large-5c1a4163 crop=224 resize=232
mobilenet_v3_small MobileNet_V3_Small params=2542856
  IMAGENET1K_V1 mobilenet_v3_small-047dcff4 crop=224
regnet_x_16gf RegNet_X_16GF params=54278536
  IMAGENET1K_V1 regnet_x_16gf-2007eb11 crop=224
  IMAGENET1K_V2* regnet_x_16gf-ba3796d7 crop=224 resize=232
regnet_x_1_6gf RegNet_X_1_6GF params=9190136
  IMAGENET1K_V1 regnet_x_1_6gf-e3633e7f crop=224
  IMAGENET1K_V2* regnet_x_1_6gf-a12f2b72 crop=224 resize=232
regnet_x_32gf RegNet_X_32GF params=107811560
  IMAGENET1K_V1 regnet_x_32gf-9d47f8d0 crop=224
  IMAGENET1K_V2* regnet_x_32gf-6eb8fdc6 crop=224 resize=232
regnet_x_3_2gf RegNet_X_3_2GF params=15296552
  IMAGENET1K_V1 regnet_x_3_2gf-f342aeae crop=224
  IMAGENET1K_V2* regnet_x_3_2gf-7071aa85 crop=224 resize=232
regnet_x_400mf RegNet_X_400MF params=5495976
  IMAGENET1K_V1 regnet_x_400mf-adf1edd5 crop=224
  IMAGENET1K_V2* regnet_x_400mf-62229a5f crop=224 resize=232
regnet_x_800mf RegNet_X_800MF params=7259656
  IMAGENET1K_V1 regnet_x_800mf-ad17e45c crop=224
  IMAGENET1K_V2* regnet_x_800mf-94a99ebd crop=224 resize=232
regnet_x_8gf RegNet_X_8GF params=39572648
  IMAGENET1K_V1 regnet_x_8gf-03ceed89 crop=224
  IMAGENET1K_V2* regnet_x_8gf-2b70d774 crop=224 resize=232
regnet_y_128gf RegNet_Y_128GF params=644812894
  IMAGENET1K_SWAG_E2E_V1* regnet_y_128gf_swag-c8ce3e52 crop=384 resize=384 bicubic
  IMAGENET1K_SWAG_LINEAR_V1 regnet_y_128gf_lc_swag-cbe8ce12 crop=224 resize=224 bicubic
regnet_y_16gf RegNet_Y_16GF params=83590140
  IMAGENET1K_V1 regnet_y_16gf-9e6ed7dd crop=224
  IMAGENET1K_V2* regnet_y_16gf-3e4a00f9 crop=224 resize=232
  IMAGENET1K_SWAG_E2E_V1 regnet_y_16gf_swag-43afe44d crop=384 resize=384 bicubic
  IMAGENET1K_SWAG_LINEAR_V1 regnet_y_16gf_lc_swag-f3ec0043 crop=224 resize=224 bicubic
regnet_y_1_6gf RegNet_Y_1_6GF params=11202430
  IMAGENET1K_V1 regnet_y_1_6gf-b11a554e crop=224
  IMAGENET1K_V2* regnet_y_1_6gf-0d7bc02a crop=224 resize=232
regnet_y_32gf RegNet_Y_32GF params=145046770
  IMAGENET1K_V1 regnet_y_32gf-4dee3f7a crop=224
  IMAGENET1K_V2* regnet_y_32gf-8db6d4b5 crop=224 resize=232
  IMAGENET1K_SWAG_E2E_V1 regnet_y_32gf_swag-04fdfa75 crop=384 resize=384 bicubic
  IMAGENET1K_SWAG_LINEAR_V1 regnet_y_32gf_lc_swag-e1583746 crop=224 resize=224 bicubic
regnet_y_3_2gf RegNet_Y_3_2GF params=19436338
  IMAGENET1K_V1 regnet_y_3_2gf-b5a9779c crop=224
  IMAGENET1K_V2* regnet_y_3_2gf-9180c971 crop=224 resize=232
regnet_y_400mf RegNet_Y_400MF params=4344144
  IMAGENET1K_V1 regnet_y_400mf-c65dace8 crop=224
  IMAGENET1K_V2* regnet_y_400mf-e6988f5f crop=224 resize=232
regnet_y_800mf RegNet_Y_800MF params=6432512
  IMAGENET1K_V1 regnet_y_800mf-1b27b58c crop=224
  IMAGENET1K_V2* regnet_y_800mf-58fc7688 crop=224 resize=232
regnet_y_8gf RegNet_Y_8GF params=39381472
  IMAGENET1K_V1 regnet_y_8gf-d0d0e4a8 crop=224
  IMAGENET1K_V2* regnet_y_8gf-dc2b1b54 crop=224 resize=232
resnet101 ResNet101 params=44549160
  IMAGENET1K_V1 resnet101-63fe2227 crop=224
  IMAGENET1K_V2* resnet101-cd907fc2 crop=224 resize=232
resnet152 ResNet152 params=60192808
  IMAGENET1K_V1 resnet152-394f9c45 crop=224
  IMAGENET1K_V2* resnet152-f82ba261 crop=224 resize=232
resnet18 ResNet18 params=11689512
  IMAGENET1K_V1 resnet18-f37072fd crop=224
resnet34 ResNet34 params=21797672
  IMAGENET1K_V1 resnet34-b627a593 crop=224
resnet50 ResNet50 params=25557032
  IMAGENET1K_V1 resnet50-0676ba61 crop=224
  IMAGENET1K_V2* resnet50-11ad3fa6 crop=224 resize=232
resnext101_32x8d ResNeXt101_32X8D params=88791336
  IMAGENET1K_V1 resnext101_32x8d-8ba56ff5 crop=224
  IMAGENET1K_V2* resnext101_32x8d-110c445d crop=224 resize=232
resnext101_64x4d ResNeXt101_64X4D params=83455272
  IMAGENET1K_V1 resnext101_64x4d-173b62eb crop=224 resize=232
resnext50_32x4d ResNeXt50_32X4D params=25028904
  IMAGENET1K_V1 resnext50_32x4d-7cdf4587 crop=224
  IMAGENET1K_V2* resnext50_32x4d-1a0047aa crop=224 resize=232
shufflenet_v2_x0_5 ShuffleNet_V2_X0_5 params=1366792
  IMAGENET1K_V1 shufflenetv2_x0.5-f707e7126e crop=224
shufflenet_v2_x1_0 ShuffleNet_V2_X1_0 params=2278604
  IMAGENET1K_V1 shufflenetv2_x1-5666bf0f80 crop=224
shufflenet_v2_x1_5 ShuffleNet_V2_X1_5 params=3503624
  IMAGENET1K_V1 shufflenetv2_x1_5-3c479a10 crop=224 resize=232
shufflenet_v2_x2_0 ShuffleNet_V2_X2_0 params=7393996
  IMAGENET1K_V1 shufflenetv2_x2_0-8be3c8ee crop=224 resize=232
squeezenet1_0 SqueezeNet1_0 params=1248424 min=21
  IMAGENET1K_V1 squeezenet1_0-b66bff10 crop=224
squeezenet1_1 SqueezeNet1_1 params=1235496 min=17
  IMAGENET1K_V1 squeezenet1_1-b8a52dc0 crop=224
swin_b Swin_B params=87768224 min=224
  IMAGENET1K_V1 swin_b-68c6b09e crop=224 resize=238 bicubic
swin_s Swin_S params=49606258 min=224
  IMAGENET1K_V1 swin_s-5e29d889 crop=224 resize=246 bicubic
swin_t Swin_T params=28288354 min=224
  IMAGENET1K_V1 swin_t-704ceda3 crop=224 resize=232 bicubic
swin_v2_b Swin_V2_B params=87930848 min=256
  IMAGENET1K_V1 swin_v2_b-781e5279 crop=256 resize=272 bicubic
swin_v2_s Swin_V2_S params=49737442 min=256
  IMAGENET1K_V1 swin_v2_s-637d8ceb crop=256 resize=260 bicubic
swin_v2_t Swin_V2_T params=28351570 min=256
  IMAGENET1K_V1 swin_v2_t-b137f0e2 crop=256 resize=260 bicubic
vgg11 VGG11 params=132863336 min=32
  IMAGENET1K_V1 vgg11-8a719046 crop=224
vgg11_bn VGG11_BN params=132868840 min=32
  IMAGENET1K_V1 vgg11_bn-6002323d crop=224
vgg13 VGG13 params=133047848 min=32
  IMAGENET1K_V1 vgg13-19584684 crop=224
vgg13_bn VGG13_BN params=133053736 min=32
  IMAGENET1K_V1 vgg13_bn-abd245e5 crop=224
vgg16 VGG16 params=138357544 min=32
  IMAGENET1K_V1* vgg16-397923af crop=224
  IMAGENET1K_FEATURES vgg16_features-amdegroot-88682ab5
    crop=224 mean=0.48235,0.45882,0.40784 std=1/255 unlabelled
vgg16_bn VGG16_BN params=138365992 min=32
  IMAGENET1K_V1 vgg16_bn-6c64b313 crop=224
vgg19 VGG19 params=143667240 min=32
  IMAGENET1K_V1 vgg19-dcbb9e9d crop=224
vgg19_bn VGG19_BN params=143678248 min=32
  IMAGENET1K_V1 vgg19_bn-c79401a0 crop=224
vit_b_16 ViT_B_16
  IMAGENET1K_V1* vit_b_16-c867db91 crop=224 min=224 params=86567656
  IMAGENET1K_SWAG_E2E_V1 vit_b_16_swag-9ac1b537
    crop=384 resize=384 bicubic min=384 params=86859496
  IMAGENET1K_SWAG_LINEAR_V1 vit_b_16_lc_swag-4e70ced5
    crop=224 resize=224 bicubic min=224 params=86567656
vit_b_32 ViT_B_32 params=88224232 min=224
  IMAGENET1K_V1 vit_b_32-d86f8d99 crop=224
vit_h_14 ViT_H_14
  IMAGENET1K_SWAG_E2E_V1* vit_h_14_swag-80465313
    crop=518 resize=518 bicubic min=518 params=633470440
  IMAGENET1K_SWAG_LINEAR_V1 vit_h_14_lc_swag-c1eb923e
    crop=224 resize=224 bicubic min=224 params=632045800
vit_l_16 ViT_L_16
  IMAGENET1K_V1* vit_l_16-852ce7e3 crop=224 resize=242 min=224 params=304326632
  IMAGENET1K_SWAG_E2E_V1 vit_l_16_swag-4f3808c9
    crop=512 resize=512 bicubic min=512 params=305174504
  IMAGENET1K_SWAG_LINEAR_V1 vit_l_16_lc_swag-4d563306
    crop=224 resize=224 bicubic min=224 params=304326632
vit_l_32 ViT_L_32 params=306535400 min=224
  IMAGENET1K_V1 vit_l_32-c7638314 crop=224
wide_resnet101_2 Wide_ResNet101_2 params=126886696
  IMAGENET1K_V1 wide_resnet101_2-32ee1156 crop=224
  IMAGENET1K_V2* wide_resnet101_2-d733dc28 crop=224 resize=232
wide_resnet50_2 Wide_ResNet50_2 params=68883240
  IMAGENET1K_V1 wide_resnet50_2-95faca4d crop=224
  IMAGENET1K_V2* wide_resnet50_2-9ba9bcbe crop=224 resize=232]]

M.segmentation = [[
deeplabv3_mobilenet_v3_large DeepLabV3_MobileNet_V3_Large params=11029328
  COCO_WITH_VOC_LABELS_V1 deeplabv3_mobilenet_v3_large-fc3c493d resize=520
deeplabv3_resnet101 DeepLabV3_ResNet101 params=60996202
  COCO_WITH_VOC_LABELS_V1 deeplabv3_resnet101_coco-586e9e4e resize=520
deeplabv3_resnet50 DeepLabV3_ResNet50 params=42004074
  COCO_WITH_VOC_LABELS_V1 deeplabv3_resnet50_coco-cd0a2569 resize=520
fcn_resnet101 FCN_ResNet101 params=54314346
  COCO_WITH_VOC_LABELS_V1 fcn_resnet101_coco-7ecb50ca resize=520
fcn_resnet50 FCN_ResNet50 params=35322218
  COCO_WITH_VOC_LABELS_V1 fcn_resnet50_coco-1167a1af resize=520
lraspp_mobilenet_v3_large LRASPP_MobileNet_V3_Large params=3221538
  COCO_WITH_VOC_LABELS_V1 lraspp_mobilenet_v3_large-d234d4ea resize=520]]

M.detection = [[
fasterrcnn_mobilenet_v3_large_320_fpn FasterRCNN_MobileNet_V3_Large_320_FPN params=19386354
  COCO_V1 fasterrcnn_mobilenet_v3_large_320_fpn-907ea3f9
fasterrcnn_mobilenet_v3_large_fpn FasterRCNN_MobileNet_V3_Large_FPN params=19386354
  COCO_V1 fasterrcnn_mobilenet_v3_large_fpn-fb6a3cc7
fasterrcnn_resnet50_fpn FasterRCNN_ResNet50_FPN params=41755286
  COCO_V1 fasterrcnn_resnet50_fpn_coco-258fb6c6
fasterrcnn_resnet50_fpn_v2 FasterRCNN_ResNet50_FPN_V2 params=43712278
  COCO_V1 fasterrcnn_resnet50_fpn_v2_coco-dd69338a
fcos_resnet50_fpn FCOS_ResNet50_FPN params=32269600
  COCO_V1 fcos_resnet50_fpn_coco-99b0c9b7
keypointrcnn_resnet50_fpn KeypointRCNN_ResNet50_FPN params=59137258
  COCO_LEGACY keypointrcnn_resnet50_fpn_coco-9f466800
  COCO_V1* keypointrcnn_resnet50_fpn_coco-fc266e95
maskrcnn_resnet50_fpn MaskRCNN_ResNet50_FPN params=44401393
  COCO_V1 maskrcnn_resnet50_fpn_coco-bf2d0c1e
maskrcnn_resnet50_fpn_v2 MaskRCNN_ResNet50_FPN_V2 params=46359409
  COCO_V1 maskrcnn_resnet50_fpn_v2_coco-73cbd019
retinanet_resnet50_fpn RetinaNet_ResNet50_FPN params=34014999
  COCO_V1 retinanet_resnet50_fpn_coco-eeacb38b
retinanet_resnet50_fpn_v2 RetinaNet_ResNet50_FPN_V2 params=38198935
  COCO_V1 retinanet_resnet50_fpn_v2_coco-5905b1c5
ssd300_vgg16 SSD300_VGG16 params=35641826
  COCO_V1 ssd300_vgg16_coco-b556d3b4
ssdlite320_mobilenet_v3_large SSDLite320_MobileNet_V3_Large params=3440060
  COCO_V1 ssdlite320_mobilenet_v3_large_coco-a79551df]]

M.video = [[
mc3_18 MC3_18 params=11695440
  KINETICS400_V1 mc3_18-a90a0ba3 crop=112 resize=128x171
mvit_v1_b MViT_V1_B params=36610672 min=224 frames=16
  KINETICS400_V1 mvit_v1_b-dbeb1030 crop=224 resize=256 mean=0.45 std=0.225
mvit_v2_s MViT_V2_S params=34537744 min=224 frames=16
  KINETICS400_V1 mvit_v2_s-ae3be167 crop=224 resize=256 mean=0.45 std=0.225
r2plus1d_18 R2Plus1D_18 params=31505325
  KINETICS400_V1 r2plus1d_18-91a641e6 crop=112 resize=128x171
r3d_18 R3D_18 params=33371472
  KINETICS400_V1 r3d_18-b3b3357e crop=112 resize=128x171
s3d S3D params=8320048 min=224 frames=14
  KINETICS400_V1 s3d-d76dad2f crop=224 resize=256x256
swin3d_b Swin3D_B params=88048984 frames=1
  KINETICS400_V1* swin3d_b_1k-24f7c7c6 crop=224 resize=256 imagenet
  KINETICS400_IMAGENET22K_V1 swin3d_b_22k-7c6ae6fa crop=224 resize=256 imagenet
swin3d_s Swin3D_S params=49816678 frames=1
  KINETICS400_V1 swin3d_s-da41c237 crop=224 resize=256 imagenet
swin3d_t Swin3D_T params=28158070 frames=1
  KINETICS400_V1 swin3d_t-7615ae03 crop=224 resize=256 imagenet]]

M.optical_flow = [[
raft_large Raft_Large params=5257536 min=128
  C_T_V1 raft_large_C_T_V1-22a6c225
  C_T_V2 raft_large_C_T_V2-1bb1363a
  C_T_SKHT_V1 raft_large_C_T_SKHT_V1-0b8c9e55
  C_T_SKHT_V2* raft_large_C_T_SKHT_V2-ff5fadd5
  C_T_SKHT_K_V1 raft_large_C_T_SKHT_K_V1-4a6a5039
  C_T_SKHT_K_V2 raft_large_C_T_SKHT_K_V2-b5c70766
raft_small Raft_Small params=990162 min=128
  C_T_V1 raft_small_C_T_V1-ad48884c
  C_T_V2* raft_small_C_T_V2-01064c6d]]

return M
