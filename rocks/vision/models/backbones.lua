-- backbones.lua - parts of models for classification that compute the feature maps of models for
-- segmentation and detection.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn = torch.nn

local M = {}

local take_getter = args.signature [[vision.models.IntermediateLayerGetter(model: object,
   return_layers: table)]]

--- The first layers of a model, which are called one after the other; the call returns a table of
--- the outputs of some. `return_layers` maps the names of these layers, or their positions in a
--- Sequential, to the keys of the table. Layers after the last of them are left out. The states of
--- the layers keep their names.
---
---     local models = torch.vision.models
---     local get = models.IntermediateLayerGetter
---     local body = get(models.resnet18(), {layer1 = 1, layer3 = 2})
---     local maps = body(torch.zeros(1, 3, 64, 64))
---     print(table.unpack(maps[2].shape))
---     --> 1	256	4	4
---@class vision.models.IntermediateLayerGetter: nn.Module
---@overload fun(model: nn.Module, return_layers: table): nn.Module
local IntermediateLayerGetter = class.class("vision.models.IntermediateLayerGetter", nn.Module)
M.IntermediateLayerGetter = IntermediateLayerGetter

function IntermediateLayerGetter:__init(...)
   local a = take_getter(...)
   local names, keys, left = {}, {}, 0
   for name, key in pairs(a.return_layers) do
      keys[name] = key
      left = left + 1
   end
   for name, layer in a.model:named_children() do
      if left == 0 then break end
      if math.tointeger(name) then name = math.tointeger(name) end
      self[name] = layer
      names[#names + 1] = name
      if keys[name] ~= nil then left = left - 1 end
   end
   if left > 0 then
      for name in pairs(keys) do
         if self[name] == nil then
            torch.raise(("vision.models.IntermediateLayerGetter: return_layers: there is no layer "
               .. "%s in %s"):format(name, torch.type(a.model)))
         end
      end
   end
   rawset(self, "_order", names)
   rawset(self, "_keys", keys)
end

function IntermediateLayerGetter:forward(input)
   local maps = {}
   for _, name in ipairs(self._order) do
      input = self[name](input)
      local key = self._keys[name]
      if key ~= nil then maps[key] = input end
   end
   return maps
end

--- Returns the positions of a MobileNet's layers that end a resolution: the first, those that
--- reduce the size, and the last.
---@param features nn.Sequential
---@return integer[]
function M.stages(features)
   local list = {1}
   for i, layer in ipairs(features) do
      if layer.is_strided then list[#list + 1] = i end
   end
   list[#list + 1] = #features
   return list
end

return M
