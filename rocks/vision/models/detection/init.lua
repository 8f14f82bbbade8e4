-- init.lua - torch.vision.models.detection: models that find objects in images, and parts of these
-- models. Labels count classes from 1. In models with a background class, the background is class
-- 1, and objects have labels from 2 on.

local lazy = require "tlua.lazy"

local modules = lazy.modules("tlua.vision.models.detection", {
   anchors = "AnchorGenerator DefaultBoxGenerator",
   transform = "GeneralizedRCNNTransform",
   rpn = "RPNHead RegionProposalNetwork",
   roi_heads = "RoIHeads TwoMLPHead FastRCNNPredictor",
   rcnn = [[GeneralizedRCNN FasterRCNN MaskRCNN KeypointRCNN fasterrcnn_resnet50_fpn
      fasterrcnn_resnet50_fpn_v2 fasterrcnn_mobilenet_v3_large_fpn
      fasterrcnn_mobilenet_v3_large_320_fpn maskrcnn_resnet50_fpn maskrcnn_resnet50_fpn_v2
      keypointrcnn_resnet50_fpn]],
   retinanet = "RetinaNet retinanet_resnet50_fpn retinanet_resnet50_fpn_v2",
   fcos = "FCOS fcos_resnet50_fpn",
   ssd = "SSD ssd300_vgg16 ssdlite320_mobilenet_v3_large",
})
for name in ([[BackboneWithFPN resnet_fpn_backbone mobilenet_backbone]]):gmatch "%S+" do
   modules[name] = "tlua.vision.models.backbones"
end

for _, name in ipairs(require "tlua.vision.models.weights".names "detection") do
   modules[name] = "tlua.vision.models.weights"
end

return lazy.load({}, modules)
