-- Resample.lua - layers that change the resolution, or trade resolution for channels.

local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

local M = {}

--- Resizes (N, C, ...) to `size`, or by scale_factor, with the interpolation that `mode` names.
---
---     local layer = torch.nn.Upsample {scale_factor = 2, mode = "bilinear"}
---     print(table.unpack(layer(torch.zeros(1, 3, 8, 8)).shape))
---     --> 1	3	16	16
---@class nn.Upsample: nn.Module

--- Calls F.interpolate with the options that the layer has.
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
---
---     local layer = torch.nn.UpsamplingNearest2d {scale_factor = 2}
---     print(layer(torch.tensor {{{{1.0, 2.0}}}}):squeeze())
---     --> tensor([[1., 1., 2., 2.],
---     -->         [1., 1., 2., 2.]])
---@class nn.UpsamplingNearest2d: nn.Upsample
M.UpsamplingNearest2d = define("UpsamplingNearest2d",
   "size: integers?, scale_factor: number|numbers?, mode: string = 'nearest'", resize)

--- Upsamples (N, C, H, W) to `size`, or by scale_factor, bilinearly; corners keep their values.
---
---     local layer = torch.nn.UpsamplingBilinear2d {size = {1, 3}}
---     print(layer(torch.tensor {{{{1.0, 2.0}}}}):flatten())
---     --> tensor([1.0000, 1.5000, 2.0000])
---@class nn.UpsamplingBilinear2d: nn.Upsample
M.UpsamplingBilinear2d = define("UpsamplingBilinear2d", [[size: integers?,
   scale_factor: number|numbers?, mode: string = 'bilinear', align_corners: boolean = true]],
   resize)

--- Rearranges (N, C r r, H, W) to (N, C, H r, W r).
---
---     local layer = torch.nn.PixelShuffle(2)
---     print(table.unpack(layer(torch.zeros(1, 8, 5, 5)).shape))
---     --> 1	2	10	10
M.PixelShuffle = define("PixelShuffle", "upscale_factor: count", function(self, input)
   return F.pixel_shuffle(input, self.upscale_factor)
end)

--- Rearranges (N, C, H r, W r) to (N, C r r, H, W).
---
---     local layer = torch.nn.PixelUnshuffle(2)
---     print(table.unpack(layer(torch.zeros(1, 2, 10, 10)).shape))
---     --> 1	8	5	5
M.PixelUnshuffle = define("PixelUnshuffle", "downscale_factor: count", function(self, input)
   return F.pixel_unshuffle(input, self.downscale_factor)
end)

--- Interleaves the channels of (N, C, ...) that belong to different groups.
---
---     local layer = torch.nn.ChannelShuffle(2)
---     print(layer(torch.tensor {{{1}, {2}, {3}, {4}}}):flatten())
---     --> tensor([1, 3, 2, 4])
M.ChannelShuffle = define("ChannelShuffle", "groups: count", function(self, input)
   return F.channel_shuffle(input, self.groups)
end)

--- Copies the windows of (N, C, H, W) into columns: (N, C kernel, windows).
---
---     local layer = torch.nn.Unfold(2)
---     print(table.unpack(layer(torch.zeros(1, 3, 4, 4)).shape)) -- nine windows
---     --> 1	12	9
M.Unfold = define("Unfold", [[kernel_size: integers, dilation: integers = 1,
   padding: integers = 0, stride: integers = 1]], function(self, input)
   return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
end)

--- Adds each column, in the layout of Unfold's result, to the elements of the column's window.
---
---     local layer = torch.nn.Fold({4, 4}, 2)
---     print(table.unpack(layer(torch.zeros(1, 12, 9)).shape))
---     --> 1	3	4	4
M.Fold = define("Fold", [[output_size: integers, kernel_size: integers, dilation: integers = 1,
   padding: integers = 0, stride: integers = 1]], function(self, input)
   return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding,
      self.stride)
end)

return M
