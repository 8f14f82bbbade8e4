-- init.lua - torch.vision.models.video: models that classify videos (N, 3, frames, H, W).

local lazy = require "tlua.lazy"

local modules = lazy.modules("tlua.vision.models.video", {
   resnet = "r3d_18 mc3_18 r2plus1d_18",
   s3d = "s3d",
   mvit = "mvit_v1_b mvit_v2_s",
   swin = "swin3d_t swin3d_s swin3d_b",
})
for _, name in ipairs(require "tlua.vision.models.weights".names "video") do
   modules[name] = "tlua.vision.models.weights"
end

return lazy.load({}, modules)
