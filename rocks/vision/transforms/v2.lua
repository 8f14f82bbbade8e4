-- v2.lua - torch.vision.transforms.v2: classes that transform images together with their masks,
-- boxes and keypoints. The field `functional` contains the transforms as functions.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.vision.transforms", {
   auto_augment = "AutoAugment RandAugment TrivialAugmentWide AugMix",
   box_classes = [[ConvertBoundingBoxFormat ClampBoundingBoxes ClampKeyPoints SetClampingMode
      SanitizeBoundingBoxes SanitizeKeyPoints]],
   classes = [[Resize RandomResize RandomShortestSize ScaleJitter CenterCrop Pad RandomCrop
      RandomResizedCrop FiveCrop TenCrop RandomZoomOut RandomIoUCrop RandomHorizontalFlip
      RandomVerticalFlip RandomRotation RandomAffine RandomPerspective ElasticTransform]],
   colour_classes = [[Normalize ToTensor ToPILImage PILToTensor ToDtype ConvertImageDtype
      LinearTransformation GaussianBlur GaussianNoise JPEG RandomErasing Grayscale RandomGrayscale
      RGB ColorJitter RandomChannelPermutation RandomPhotometricDistort RandomEqualize RandomInvert
      RandomPosterize RandomSolarize RandomAutocontrast RandomAdjustSharpness]],
   containers = [[Compose RandomApply RandomChoice RandomOrder Identity ToImage ToPureTensor Lambda
      UniformTemporalSubsample]],
   functional = "functional",
   mixing = "MixUp CutMix",
   queries = [[InterpolationMode AutoAugmentPolicy has_any has_all check_type query_size query_chw
      get_bounding_boxes get_keypoints]],
   Transform = "Transform",
}))
