-- anchors.lua - anchors: boxes of fixed sizes at each position of feature maps, from which
-- detectors predict the offsets of objects.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn = torch.nn

local M = {}

-- Returns a list with a list of numbers for each of `count` maps. If `value` is a single list or
-- number, it is used for all maps.
local function lists(title, name, value, count)
   local is_nested = type(value[1]) == "table"
   local all = {}
   for i = 1, count or #value do
      local own = is_nested and value[i] or count and value or {value[i]}
      if type(own) ~= "table" or #own == 0 then
         args.refuse(title, name, ("lists of numbers for %d maps"):format(count or #value), own)
      end
      for _, number in ipairs(own) do
         if type(number) ~= "number" or number <= 0 then
            args.refuse(title, name, "numbers above 0", number)
         end
      end
      all[i] = own
   end
   if #all == 0 then args.refuse(title, name, "at least one size", value) end
   return all
end

-- Returns the anchors (n, 4) for one position, which are centred at the origin.
local function around_origin(sizes, ratios)
   local options <const> = {device = "cpu", dtype = "float32"}
   local size, root = torch.tensor(sizes, options), torch.tensor(ratios, options):sqrt()
   local height = (root:unsqueeze(2) * size):flatten()
   local width = ((1 / root):unsqueeze(2) * size):flatten()
   return (torch.stack({-width, -height, width, height}, 2) / 2):round()
end

local take_anchors = args.signature [[vision.models.detection.AnchorGenerator(sizes: table,
   aspect_ratios: table)]]

--- Makes anchors: boxes of each of `sizes` with each of `aspect_ratios` (height to width), around
--- each position of feature maps. Both options have a list for each map; `aspect_ratios` may be a
--- single list for all maps. The call takes a table with the batch `tensors` and the images'
--- `sizes`, and a list of maps; it returns a list with the anchors (n, 4) of each image.
---
---     local make = torch.vision.models.detection.AnchorGenerator
---     local anchors = make({{32}, {64}}, {{0.5, 1.0, 2.0}, {0.5, 1.0, 2.0}})
---     local batch = {tensors = torch.zeros(1, 3, 64, 64), sizes = {{64, 64}}}
---     local maps = {torch.zeros(1, 8, 4, 4), torch.zeros(1, 8, 2, 2)}
---     print(table.unpack(anchors(batch, maps)[1].shape))
---     --> 60	4
---@class vision.models.detection.AnchorGenerator: nn.Module
---@field sizes number[][]  the square root of the area, for each map
---@field aspect_ratios number[][]  heights divided by widths, for each map
---@overload fun(sizes: number[][], aspect_ratios: number[][]): nn.Module
local AnchorGenerator = class.class("vision.models.detection.AnchorGenerator", nn.Module)
M.AnchorGenerator = AnchorGenerator

function AnchorGenerator:__init(...)
   local title, a = "vision.models.detection.AnchorGenerator", take_anchors(...)
   self.sizes = lists(title, "sizes", a.sizes)
   self.aspect_ratios = lists(title, "aspect_ratios", a.aspect_ratios, #self.sizes)
   local cells = {}
   for i, sizes in ipairs(self.sizes) do cells[i] = around_origin(sizes, self.aspect_ratios[i]) end
   rawset(self, "_cells", cells)
end

--- Returns the number of anchors at each position, for each map.
---@return integer[]
function AnchorGenerator:num_anchors_per_location()
   local counts = {}
   for i, sizes in ipairs(self.sizes) do counts[i] = #sizes * #self.aspect_ratios[i] end
   return counts
end

-- Returns the coordinates of all positions of a map, row by row, as two tensors (n).
local function places(height, width, options)
   local x = torch.arange(0, width, options):unsqueeze(1):expand(height, width)
   local y = torch.arange(0, height, options):unsqueeze(2):expand(height, width)
   return x:flatten(), y:flatten()
end

function AnchorGenerator:forward(images, maps)
   if #maps ~= #self.sizes then
      args.refuse("vision.models.detection.AnchorGenerator", "maps",
         ("%d feature maps, one for each list of sizes"):format(#self.sizes), #maps)
   end
   local height, width = images.tensors:size(3), images.tensors:size(4)
   local all = {}
   for i, map in ipairs(maps) do
      local options = {device = map.device, dtype = map.dtype}
      local x, y = places(map:size(3), map:size(4), options)
      x, y = x * (width // map:size(4)), y * (height // map:size(3))
      local cells = self._cells[i]:to(map.device, map.dtype)
      all[i] = (torch.stack({x, y, x, y}, 2):unsqueeze(2) + cells:unsqueeze(1)):view(-1, 4)
   end
   all = torch.cat(all)
   local list = {}
   for i = 1, #images.sizes do list[i] = all end
   return list
end

local take_defaults = args.signature [[vision.models.detection.DefaultBoxGenerator(
   aspect_ratios: table, min_ratio: number = 0.15, max_ratio: number = 0.9, scales: numbers?,
   steps: numbers?, clip: boolean = true)]]

--- Makes the default boxes of SSD. Each position of a map has a square box of the map's scale, a
--- square box of a size between this scale and the next map's scale, and two boxes for each of the
--- map's `aspect_ratios`. A scale is a fraction of the image's side. Scales grow from `min_ratio`
--- to `max_ratio` if the list `scales` is not given; it has one scale for each map and one more.
--- `steps` has the number of pixels between the positions of each map. `clip` limits boxes to the
--- image. The object is called like an AnchorGenerator.
---
---     local make = torch.vision.models.detection.DefaultBoxGenerator
---     local boxes = make({{2}, {2, 3}})
---     print(table.concat(boxes:num_anchors_per_location(), " "))
---     --> 4 6
---@class vision.models.detection.DefaultBoxGenerator: nn.Module
---@field aspect_ratios number[][]  the ratios of the boxes of each map
---@field scales number[]  the scale of each map, and one more
---@field steps? number[]  the number of pixels between the positions of each map
---@field clip boolean  whether boxes are limited to the image
---@overload fun(aspect_ratios: number[][], options?: table): nn.Module
local DefaultBoxGenerator = class.class("vision.models.detection.DefaultBoxGenerator", nn.Module)
M.DefaultBoxGenerator = DefaultBoxGenerator

function DefaultBoxGenerator:__init(...)
   local title, a = "vision.models.detection.DefaultBoxGenerator", take_defaults(...)
   local count = #a.aspect_ratios
   self.aspect_ratios = lists(title, "aspect_ratios", a.aspect_ratios)
   for _, name in ipairs {"scales", "steps"} do
      local expected = name == "scales" and count + 1 or count
      if a[name] and #a[name] ~= expected then
         args.refuse(title, name, expected .. " numbers", #a[name])
      end
   end
   self.steps, self.clip, self.scales = a.steps, a.clip, a.scales
   if not self.scales then
      self.scales = {a.min_ratio, a.max_ratio}
      if count > 1 then
         for k = 1, count do
            self.scales[k] = a.min_ratio + (a.max_ratio - a.min_ratio) * (k - 1) / (count - 1)
         end
         self.scales[count + 1] = 1.0
      end
   end
end

--- Returns the number of boxes at each position, for each map.
---@return integer[]
function DefaultBoxGenerator:num_anchors_per_location()
   local counts = {}
   for i, ratios in ipairs(self.aspect_ratios) do counts[i] = 2 + 2 * #ratios end
   return counts
end

-- Returns the widths and heights of the boxes of map i as fractions of the image's width and
-- height.
function DefaultBoxGenerator:_sizes(i)
   local scale = self.scales[i]
   local between = math.sqrt(scale * self.scales[i + 1])
   local list = {{scale, scale}, {between, between}}
   for _, ratio in ipairs(self.aspect_ratios[i]) do
      local root = math.sqrt(ratio)
      list[#list + 1] = {scale * root, scale / root}
      list[#list + 1] = {scale / root, scale * root}
   end
   local sizes = torch.tensor(list, {dtype = "float32", device = "cpu"})
   return self.clip and sizes:clamp(0, 1) or sizes
end

function DefaultBoxGenerator:forward(images, maps)
   local height, width = images.tensors:size(3), images.tensors:size(4)
   local all = {}
   for i, map in ipairs(maps) do
      local options = {device = map.device, dtype = map.dtype}
      local rows, columns = map:size(3), map:size(4)
      local x, y = places(rows, columns, options)
      local step = self.steps and self.steps[i]
      x = (x + 0.5) / (step and width / step or columns)
      y = (y + 0.5) / (step and height / step or rows)
      local sizes = self:_sizes(i):to(map.device, map.dtype) * 0.5
      local centre, half = torch.stack({x, y}, 2):unsqueeze(2), sizes:unsqueeze(1)
      all[i] = torch.cat({centre - half, centre + half}, 3):view(-1, 4)
   end
   all = torch.cat(all) * torch.tensor({width, height, width, height},
      {device = maps[1].device, dtype = maps[1].dtype})
   local list = {}
   for i = 1, #images.sizes do list[i] = all end
   return list
end

return M
