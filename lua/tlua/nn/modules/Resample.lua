-- Resample.lua - layers that change the resolution, or trade resolution for channels.

local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

local M = {}

-- Calls F.interpolate with the options that the layer has.
local function resize(self, input)
   return F.interpolate(input, {
      size = self.size, scale_factor = self.scale_factor, mode = self.mode,
      align_corners = self.align_corners,
      recompute_scale_factor = self.recompute_scale_factor,
   })
end

M.Upsample = define("Upsample", [[size: integers?, scale_factor: number|numbers?,
   mode: string = 'nearest', align_corners: boolean?, recompute_scale_factor: boolean?]], resize)

--- Upsamples (N, C, H, W) to `size`, or by scale_factor, by copying the nearest element.
---@class nn.UpsamplingNearest2d: nn.Upsample
M.UpsamplingNearest2d = define("UpsamplingNearest2d",
   "size: integers?, scale_factor: number|numbers?, mode: string = 'nearest'", resize)

--- Upsamples (N, C, H, W) to `size`, or by scale_factor, bilinearly; corners keep their values.
---@class nn.UpsamplingBilinear2d: nn.Upsample
M.UpsamplingBilinear2d = define("UpsamplingBilinear2d", [[size: integers?,
   scale_factor: number|numbers?, mode: string = 'bilinear', align_corners: boolean = true]],
   resize)

-- (N, C r r, H, W) to (N, C, H r, W r).
M.PixelShuffle = define("PixelShuffle", "upscale_factor: count", function(self, input)
   return F.pixel_shuffle(input, self.upscale_factor)
end)

-- (N, C, H r, W r) to (N, C r r, H, W).
M.PixelUnshuffle = define("PixelUnshuffle", "downscale_factor: count", function(self, input)
   return F.pixel_unshuffle(input, self.downscale_factor)
end)

M.ChannelShuffle = define("ChannelShuffle", "groups: count", function(self, input)
   return F.channel_shuffle(input, self.groups)
end)

-- Copies the windows of (N, C, H, W) into columns: (N, C kernel, windows).
M.Unfold = define("Unfold", [[kernel_size: integers, dilation: integers = 1,
   padding: integers = 0, stride: integers = 1]], function(self, input)
   return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
end)

-- Adds up such columns at the positions of their windows.
M.Fold = define("Fold", [[output_size: integers, kernel_size: integers, dilation: integers = 1,
   padding: integers = 0, stride: integers = 1]], function(self, input)
   return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding,
      self.stride)
end)

return M
