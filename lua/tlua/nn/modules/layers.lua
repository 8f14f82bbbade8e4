-- layers.lua - defines classes of layers that have options but no parameters. The constructor
-- stores the options as fields, tostring prints them, and forward is a single call.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

local M = {}

local function show(value)
   if type(value) == "table" then
      local shown = {}
      for i, item in ipairs(value) do shown[i] = show(item) end
      return "(" .. table.concat(shown, ", ") .. ")"
   end
   if math.type(value) == "float" then return ("%.14g"):format(value) end
   return tostring(value)
end

--- Defines the class `nn.<name>`. Its options are declared in the notation of args.signature, and
--- become fields of the layer; tensors become buffers.
---@param name string
---@param options string  "kernel_size: integers, stride: integers?"
---@param forward fun(self: nn.Module, ...): any
---@param finish? fun(self: nn.Module)  a function that the constructor calls last, to check the
--- fields
---@return table class
---@return fun(): string[] names  returns the names of the options
function M.define(name, options, forward, finish)
   local take, names = args.declare(("nn.%s(%s)"):format(name, options))
   local Layer, parent = class.class("nn." .. name, Module)

   function Layer:__init(...)
      parent.__init(self)
      local a = take(...)
      for _, option in ipairs(names()) do
         local value = a[option]
         if type(value) == "userdata" and torch.is_tensor(value) then
            self:register_buffer(option, value)
         else
            self[option] = value
         end
      end
      if finish then finish(self) end
   end

   function Layer:extra_repr()
      local shown = {}
      for _, option in ipairs(names()) do
         local value = self[option]
         if value ~= nil and value ~= false then
            shown[#shown + 1] = option .. "=" .. show(value)
         end
      end
      return table.concat(shown, ", ")
   end

   Layer.forward = forward
   return Layer, names
end

return M
