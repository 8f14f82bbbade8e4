-- init.lua - torch.vision.ops: operators and layers of vision models. Coordinates of boxes count
-- from 0, because they are lengths; positions of images, classes and boxes count from 1.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.vision.ops", {
   boxes = [[box_area box_iou generalized_box_iou distance_box_iou complete_box_iou box_convert
      clip_boxes_to_image remove_small_boxes masks_to_boxes nms batched_nms]],
   losses = [[sigmoid_focal_loss generalized_box_iou_loss distance_box_iou_loss
      complete_box_iou_loss]],
   roi = "roi_align roi_pool ps_roi_align ps_roi_pool RoIAlign RoIPool PSRoIAlign PSRoIPool",
   deform = "deform_conv2d DeformConv2d",
   drop_block = "drop_block2d drop_block3d DropBlock2d DropBlock3d",
   pyramid = [[FeaturePyramidNetwork MultiScaleRoIAlign LastLevelMaxPool LastLevelP6P7]],
   layers = [[Conv2dNormActivation Conv3dNormActivation SqueezeExcitation MLP Permute
      FrozenBatchNorm2d stochastic_depth StochasticDepth]],
}))
