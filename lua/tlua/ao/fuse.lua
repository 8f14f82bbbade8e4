-- fuse.lua - joins layers of a model that is to be quantized: a batch norm is folded into the
-- weights of the layer before it, and a ReLU becomes part of that layer.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local nn = require "tlua.nn"

local M = {}

local who <const> = "ao.quantization.fuse_modules"

-- A layer followed by a ReLU. `convert` replaces both by one quantized layer.
local Fused = class.class("ao.quantization.Fused", nn.Module)
M.Fused = Fused

function Fused:__init(layer, relu)
   nn.Module.__init(self)
   self.layer, self.relu = layer, relu
end

function Fused:forward(x) return self.relu(self.layer(x)) end

local norm_of <const> = {
   ["nn.Linear"] = "nn.BatchNorm1d", ["nn.Conv1d"] = "nn.BatchNorm1d",
   ["nn.Conv2d"] = "nn.BatchNorm2d", ["nn.Conv3d"] = "nn.BatchNorm3d",
}

-- Returns one module that computes the same as `modules`, a layer and the modules after it.
local function fused(modules)
   local layer, at = modules[1], 2
   local norm = norm_of[torch.type(layer)]
   if modules[2] and norm and torch.type(modules[2]) == norm then
      local utils = nn.utils
      local fold = torch.type(layer) == "nn.Linear" and utils.fuse_linear_bn_eval
         or utils.fuse_conv_bn_eval
      layer, at = fold(layer, modules[2]), 3
   end
   local relu = modules[at] and torch.type(modules[at]) == "nn.ReLU"
   if not norm or #modules ~= (relu and at or at - 1) or #modules < 2 then
      local kinds = {}
      for i, module in ipairs(modules) do kinds[i] = torch.type(module) end
      args.refuse(who, "modules_to_fuse",
         "Linear or Conv, a batch norm, and ReLU, of which either of the last two may be missing",
         table.concat(kinds, ", "))
   end
   return relu and Fused(layer, modules[at]) or layer
end

local function fuse_one(model, paths)
   local modules = {}
   for i, path in ipairs(paths) do
      local found, module = pcall(model.get_submodule, model, path)
      if not found then
         args.refuse(who, "modules_to_fuse", "names of modules in the model", path)
      end
      if module.training then
         torch.raise(("%s: model: expected a model in evaluation mode; call eval() first"):format(
            who))
      end
      modules[i] = module
   end
   local new = fused(modules)
   new.qconfig = rawget(modules[1], "qconfig")
   model:set_submodule(paths[1], new:eval())
   for i = 2, #paths do model:set_submodule(paths[i], nn.Identity():eval()) end
end

local take = args.signature(who .. [[(model: object, modules_to_fuse: table,
   inplace: boolean = false)]])

--- Returns a copy of a model, which must be in evaluation mode. In the copy, each list of
--- successive layers is joined to one layer. A list has a Linear or a convolution, followed by a
--- batch norm, a ReLU or both.
--- The fused layer replaces the first module of each list, and nn.Identity replaces the others.
--- prepare observes the results after the ReLU, and convert turns the layer and its ReLU into one
--- layer of 8-bit integers.
---
---     local Q = torch.ao.quantization
---     local model = nn.Sequential(nn.Linear(4, 3), nn.ReLU()):eval()
---     local fused = Q.fuse_modules(model, {"1", "2"})
---     print(torch.type(fused[2]))
---     --> nn.Identity
---@param model nn.Module
---@param modules_to_fuse string[]|string[][]  names of modules, or lists of names
---@param options? {inplace: boolean}  whether to change the model itself
---@return nn.Module
function M.fuse_modules(...)
   local a = take(...)
   local model, lists = a.model, a.modules_to_fuse
   if not class.isinstance(model, nn.Module) then
      args.refuse(who, "model", "an nn.Module", model)
   end
   if not a.inplace then model = model:clone() end
   if type(lists[1]) == "string" then lists = {lists} end
   for i, paths in ipairs(lists) do
      if type(paths) ~= "table" or #paths < 2 then
         args.refuse(who, ("modules_to_fuse[%d]"):format(i), "a list of at least two names", paths)
      end
      fuse_one(model, paths)
   end
   return model
end

return M
