-- cd rocks/vision && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-vision"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Models, operators, transforms and pictures by torchvision's names",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.vision"] = "init.lua",
      ["tlua.vision.models.alexnet"] = "models/alexnet.lua",
      ["tlua.vision.models.backbones"] = "models/backbones.lua",
      ["tlua.vision.models.convnext"] = "models/convnext.lua",
      ["tlua.vision.models.define"] = "models/define.lua",
      ["tlua.vision.models.densenet"] = "models/densenet.lua",
      ["tlua.vision.models.efficientnet"] = "models/efficientnet.lua",
      ["tlua.vision.models.inception"] = "models/inception.lua",
      ["tlua.vision.models"] = "models/init.lua",
      ["tlua.vision.models.maxvit"] = "models/maxvit.lua",
      ["tlua.vision.models.mnasnet"] = "models/mnasnet.lua",
      ["tlua.vision.models.mobilenet"] = "models/mobilenet.lua",
      ["tlua.vision.models.regnet"] = "models/regnet.lua",
      ["tlua.vision.models.resnet"] = "models/resnet.lua",
      ["tlua.vision.models.segmentation"] = "models/segmentation.lua",
      ["tlua.vision.models.shufflenet"] = "models/shufflenet.lua",
      ["tlua.vision.models.squeezenet"] = "models/squeezenet.lua",
      ["tlua.vision.models.swin"] = "models/swin.lua",
      ["tlua.vision.models.vgg"] = "models/vgg.lua",
      ["tlua.vision.models.vit"] = "models/vit.lua",
      ["tlua.vision.models.windows"] = "models/windows.lua",
      ["tlua.vision.ops.boxes"] = "ops/boxes.lua",
      ["tlua.vision.ops.deform"] = "ops/deform.lua",
      ["tlua.vision.ops.drop_block"] = "ops/drop_block.lua",
      ["tlua.vision.ops"] = "ops/init.lua",
      ["tlua.vision.ops.layers"] = "ops/layers.lua",
      ["tlua.vision.ops.losses"] = "ops/losses.lua",
      ["tlua.vision.ops.pyramid"] = "ops/pyramid.lua",
      ["tlua.vision.ops.roi"] = "ops/roi.lua",
      ["tlua.vision.transforms.classes"] = "transforms/classes.lua",
      ["tlua.vision.transforms.functional"] = "transforms/functional.lua",
      ["tlua.vision.transforms"] = "transforms/init.lua",
      ["tlua.vision.transforms.resample"] = "transforms/resample.lua",
      ["tlua.vision.transforms.v2"] = "transforms/v2.lua",
      ["tlua.vision.utils"] = "utils.lua",
   },
}
