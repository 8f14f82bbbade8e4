-- memory_format.lua - torch.nn.utils.convert_conv*_weight_memory_format: changes the memory layout
-- of a model's convolution weights. Shapes and results do not change.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

local M = {}

-- Returns a function that converts the weights of all layers of the given classes in a model.
local function converter(title, rank, classes)
   return function(module, memory_format)
      if not class.isinstance(module, Module) then
         args.refuse(title, "module", "a module", module)
      end
      local last = rank == 4 and "channels_last" or "channels_last_3d"
      if memory_format ~= last and memory_format ~= "contiguous_format" then
         args.refuse(title, "memory_format", last .. " or contiguous_format", memory_format)
      end
      for _, layer in ipairs(module:modules()) do
         for _, name in ipairs(classes) do
            if class.isinstance(layer, torch.nn[name]) then
               local weight = layer.weight
               local grad = weight.grad
               weight.grad = nil
               weight.data = weight.data:to {memory_format = memory_format}
               weight.grad = grad
            end
         end
      end
      return module
   end
end

--- Converts the weights of all Conv2d and ConvTranspose2d layers of a model to the layout
--- `channels_last` or `contiguous_format`.
---@names nn.utils.convert_conv2d_weight_memory_format
---@param module nn.Module  the model; its layers are changed
---@param memory_format string  "channels_last" or "contiguous_format"
---@return nn.Module module
M.convert_conv2d_weight_memory_format = converter("nn.utils.convert_conv2d_weight_memory_format",
   4, {"Conv2d", "ConvTranspose2d"})

--- Converts the weights of all Conv3d and ConvTranspose3d layers of a model to the layout
--- `channels_last_3d` or `contiguous_format`.
---@names nn.utils.convert_conv3d_weight_memory_format
---@param module nn.Module  the model; its layers are changed
---@param memory_format string  "channels_last_3d" or "contiguous_format"
---@return nn.Module module
M.convert_conv3d_weight_memory_format = converter("nn.utils.convert_conv3d_weight_memory_format",
   5, {"Conv3d", "ConvTranspose3d"})

return M
