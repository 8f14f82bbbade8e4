-- pyramid.lua - pyramids of feature maps: a network that builds them (Lin et al., 2016), and
-- roi_align over their levels.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local layers = require "tlua.vision.ops.layers"
local old_names = require "tlua.vision.old_names"
local roi = require "tlua.vision.ops.roi"

local nn = torch.nn
local F = nn.functional

local M = {}

local take_network = args.signature [[vision.ops.FeaturePyramidNetwork(in_channels_list: integers,
   out_channels: count, extra_blocks: callable?, norm_layer: callable?)]]

--- Builds a pyramid. The call takes a list of maps, each half as large as the one before;
--- `in_channels_list` has their numbers of channels. All maps are brought to `out_channels`
--- channels, and the enlarged maps of lower resolution are added to each map. The call returns the
--- list of these sums, after a convolution. `extra_blocks(results, maps)` returns a longer list of
--- results. `norm_layer` makes a normalisation after each convolution.
---
---     local fpn = torch.vision.ops.FeaturePyramidNetwork({4, 8}, 2)
---     local maps = fpn {torch.zeros(1, 4, 8, 8), torch.zeros(1, 8, 4, 4)}
---     print(#maps, table.unpack(maps[1].shape))
---     --> 2	1	2	8	8
---@class vision.ops.FeaturePyramidNetwork: nn.Module
---@field inner_blocks nn.ModuleList  1x1 convolutions of the maps
---@field layer_blocks nn.ModuleList  3x3 convolutions of the sums
---@field extra_blocks fun(results: Tensor[], maps: Tensor[]): Tensor[]  adds levels
---@overload fun(in_channels_list: integer[], out_channels: integer, options?: table): nn.Module
local FeaturePyramidNetwork = class.class("vision.ops.FeaturePyramidNetwork", nn.Module)
M.FeaturePyramidNetwork = FeaturePyramidNetwork

function FeaturePyramidNetwork:__init(...)
   local a = take_network(...)
   local list = type(a.in_channels_list) == "table" and a.in_channels_list or {a.in_channels_list}
   local function conv(inputs, kernel)
      return layers.Conv2dNormActivation(inputs, a.out_channels, {kernel_size = kernel,
         norm_layer = a.norm_layer or false, activation_layer = false})
   end
   self.inner_blocks, self.layer_blocks = nn.ModuleList(), nn.ModuleList()
   local names = {}
   for i, channels in ipairs(list) do
      if channels < 1 then
         args.refuse("vision.ops.FeaturePyramidNetwork", "in_channels_list", "numbers above 0",
            channels)
      end
      self.inner_blocks:append(conv(channels, 1))
      self.layer_blocks:append(conv(a.out_channels, 3))
      for _, block in ipairs {"inner_blocks", "layer_blocks"} do
         for _, kind in ipairs {"weight", "bias"} do
            local position = ("%s.%d."):format(block, i - 1)
            names[position .. kind] = position .. "0." .. kind
         end
      end
   end
   old_names(self, names)
   self.extra_blocks = a.extra_blocks
   for _, module in ipairs(self:modules()) do
      if torch.type(module) == "nn.Conv2d" then
         nn.init.kaiming_uniform_(module.weight, {a = 1})
         if module.bias then nn.init.zeros_(module.bias) end
      end
   end
end

function FeaturePyramidNetwork:forward(maps)
   if type(maps) ~= "table" or #maps ~= #self.inner_blocks then
      args.refuse("vision.ops.FeaturePyramidNetwork", "maps",
         ("a list of %d feature maps"):format(#self.inner_blocks),
         type(maps) == "table" and #maps .. " of them" or maps)
   end
   local results, above = {}, nil
   for i = #maps, 1, -1 do
      local inner = self.inner_blocks[i](maps[i])
      if above then
         inner = inner + F.interpolate(above,
            {size = {inner:size(3), inner:size(4)}, mode = "nearest"})
      end
      results[i] = self.layer_blocks[i](inner)
      above = inner
   end
   return self.extra_blocks and self.extra_blocks(results, maps) or results
end

--- Adds a level of half the size to the results of FeaturePyramidNetwork, by taking every second
--- cell of the last level. An object of this class is a value of the option `extra_blocks`.
---
---     local ops = torch.vision.ops
---     local fpn = ops.FeaturePyramidNetwork({4}, 2,
---        {extra_blocks = ops.LastLevelMaxPool()})
---     local maps = fpn {torch.zeros(1, 4, 8, 8)}
---     print(#maps, table.unpack(maps[2].shape))
---     --> 2	1	2	4	4
---@class vision.ops.LastLevelMaxPool: nn.Module
---@overload fun(): nn.Module
local LastLevelMaxPool = class.class("vision.ops.LastLevelMaxPool", nn.Module)
M.LastLevelMaxPool = LastLevelMaxPool

function LastLevelMaxPool:forward(results)
   results[#results + 1] = F.max_pool2d(results[#results], 1, {stride = 2})
   return results
end

local take_levels = args.signature [[vision.ops.LastLevelP6P7(in_channels: count,
   out_channels: count)]]

--- Adds two levels to the results of FeaturePyramidNetwork, by convolutions of stride 2 to
--- `out_channels`. The first convolution takes the last result or, if `in_channels` differs from
--- `out_channels`, the last map from which the pyramid was built. An object of this class is a
--- value of the option `extra_blocks`.
---
---     local ops = torch.vision.ops
---     local fpn = ops.FeaturePyramidNetwork({4}, 2,
---        {extra_blocks = ops.LastLevelP6P7(2, 2)})
---     local maps = fpn {torch.zeros(1, 4, 8, 8)}
---     print(#maps, table.unpack(maps[3].shape))
---     --> 3	1	2	2	2
---@class vision.ops.LastLevelP6P7: nn.Module
---@field p6 nn.Conv2d  computes the first level
---@field p7 nn.Conv2d  computes the second level
---@overload fun(in_channels: integer, out_channels: integer): nn.Module
local LastLevelP6P7 = class.class("vision.ops.LastLevelP6P7", nn.Module)
M.LastLevelP6P7 = LastLevelP6P7

function LastLevelP6P7:__init(...)
   local a = take_levels(...)
   self.p6 = nn.Conv2d(a.in_channels, a.out_channels, 3, {stride = 2, padding = 1})
   self.p7 = nn.Conv2d(a.out_channels, a.out_channels, 3, {stride = 2, padding = 1})
   for _, conv in ipairs {self.p6, self.p7} do
      nn.init.kaiming_uniform_(conv.weight, {a = 1})
      nn.init.zeros_(conv.bias)
   end
   self.uses_results = a.in_channels == a.out_channels
end

function LastLevelP6P7:forward(results, maps)
   local p6 = self.p6(self.uses_results and results[#results] or maps[#maps])
   results[#results + 1] = p6
   results[#results + 1] = self.p7(p6:relu())
   return results
end

local take_align = args.signature [[vision.ops.MultiScaleRoIAlign(featmap_names: table,
   output_size: integers, sampling_ratio: integer, canonical_scale: number = 224,
   canonical_level: number = 4)]]

--- Computes roi_align over a pyramid, with the given `output_size` and `sampling_ratio`.
--- `featmap_names` has the keys of the maps, the largest map first. Each box is cut from the level
--- that fits its size: a box with sides of `canonical_scale` pixels is cut from level
--- `canonical_level`, and larger boxes are cut from levels of lower resolution. The call takes a
--- table of feature maps, a list of boxes (n, 4) for each image, and a list of the images' {height,
--- width}.
---
---     local pool = torch.vision.ops.MultiScaleRoIAlign({1, 2}, 2, 2)
---     local maps = {torch.zeros(1, 3, 64, 64), torch.zeros(1, 3, 32, 32)}
---     local boxes = {torch.tensor {{0.0, 0, 100, 100}}}
---     print(table.unpack(pool(maps, boxes, {{256, 256}}).shape))
---     --> 1	3	2	2
---@class vision.ops.MultiScaleRoIAlign: nn.Module
---@field featmap_names any[]  the keys of the maps that are used, the largest map first
---@field output_size integer|integer[]  the numbers of cells of a result
---@field sampling_ratio integer  the number of points of a cell along each side
---@field canonical_scale number  a side of boxes
---@field canonical_level number  the level of such boxes
---@overload fun(...): nn.Module
local MultiScaleRoIAlign = class.class("vision.ops.MultiScaleRoIAlign", nn.Module)
M.MultiScaleRoIAlign = MultiScaleRoIAlign

function MultiScaleRoIAlign:__init(...)
   for key, value in pairs(take_align(...)) do self[key] = value end
end

-- Returns the scales of the maps, which are the ratios of the sizes of the maps to the size of the
-- largest image, rounded to powers of 2.
local function scales_of(maps, sizes)
   local height = 0
   for _, size in ipairs(sizes) do height = math.max(height, size[1]) end
   local scales = {}
   for i, map in ipairs(maps) do
      local exponent = math.log(map:size(3) / height, 2)
      scales[i] = 2.0 ^ math.floor(exponent + 0.5)
   end
   return scales
end

function MultiScaleRoIAlign:forward(maps, boxes, sizes)
   local title, used = "vision.ops.MultiScaleRoIAlign", {}
   if type(maps) ~= "table" then args.refuse(title, "maps", "a table of feature maps", maps) end
   if type(boxes) ~= "table" then
      args.refuse(title, "boxes", "a list of tensors (n, 4), one for each image", boxes)
   end
   for i = 1, #boxes do
      if not torch.is_tensor(boxes[i]) or boxes[i]:dim() ~= 2 or boxes[i]:size(2) ~= 4 then
         args.refuse(title, ("boxes[%d]"):format(i), "a tensor of shape (n, 4)", boxes[i])
      end
   end
   for i, name in ipairs(self.featmap_names) do
      used[i] = maps[name]
      if not torch.is_tensor(used[i]) then
         args.refuse(title, ("maps[%s]"):format(name), "a feature map", used[i])
      end
   end
   if type(sizes) ~= "table" or #sizes ~= #boxes then
      args.refuse(title, "sizes", ("{height, width} of %d images"):format(#boxes), sizes)
   end
   for i, size in ipairs(sizes) do
      if type(size) ~= "table" or type(size[1]) ~= "number" or type(size[2]) ~= "number" then
         args.refuse(title, ("sizes[%d]"):format(i), "{height, width}", size)
      end
   end
   local scales = scales_of(used, sizes)
   local function align(map, rows, scale)
      return roi.roi_align(map, rows, self.output_size, {spatial_scale = scale,
         sampling_ratio = self.sampling_ratio})
   end
   if #used == 1 then return align(used[1], boxes, scales[1]) end
   local rows = {}
   for i, own in ipairs(boxes) do
      rows[i] = torch.cat({own:new_full({own:size(1), 1}, i), own}, 2)
   end
   rows = torch.cat(rows)
   local sides = (rows:select(2, 4) - rows:select(2, 2)) * (rows:select(2, 5) - rows:select(2, 3))
   local low, high = -math.log(scales[1], 2), -math.log(scales[#scales], 2)
   local level = ((sides:sqrt() / self.canonical_scale):log2() + self.canonical_level + 1e-6)
      :floor():clamp(low, high) - low + 1
   local positions, results = {}, {}
   for i, map in ipairs(used) do
      local own = level:eq(i):nonzero():squeeze(2)
      if own:numel() > 0 then
         positions[#positions + 1] = own
         results[#results + 1] = align(map, rows:index_select(1, own), scales[i])
      end
   end
   if #results == 0 then return align(used[1], rows, scales[1]) end
   local order = select(2, torch.cat(positions):sort())
   return torch.cat(results):index_select(1, order)
end

return M
