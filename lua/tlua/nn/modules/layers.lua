-- layers.lua - makes classes of layers that hold options and no parameters: their constructor
-- keeps the options as fields, they print them, and forward is one call.

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

--- A class `nn.<name>`. Its options are declared as for args.signature and become fields.
---@param name string
---@param options string  "kernel_size: integers, stride: integers?"
---@param forward fun(self: nn.Module, ...): any
---@return table class
function M.define(name, options, forward)
   local signature = args.signature(("nn.%s(%s)"):format(name, options))
   local names = {}
   for option in options:gmatch "([%w_]+)%s*:" do names[#names + 1] = option end

   local Layer, parent = class.class("nn." .. name, Module)

   function Layer:__init(...)
      parent.__init(self)
      local a = signature(...)
      for _, option in ipairs(names) do self[option] = a[option] end
   end

   function Layer:extra_repr()
      local shown = {}
      for _, option in ipairs(names) do
         local value = self[option]
         if value ~= nil and value ~= false then
            shown[#shown + 1] = option .. "=" .. show(value)
         end
      end
      return table.concat(shown, ", ")
   end

   Layer.forward = forward
   return Layer
end

return M
