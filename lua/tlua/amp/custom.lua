-- custom.lua - PyTorch's custom_fwd and custom_bwd, which determine how a Function behaves under
-- torch.autocast. In tlua the Function's field `cast_inputs` has the same effect.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local casts = require "tlua.amp.casts"

local M = {}

local fwd = args.signature [[amp.custom_fwd(fn: callable, device_type: string?,
   cast_inputs: string?)]]
local bwd = args.signature "amp.custom_bwd(fn: callable, device_type: string?)"

--- Wraps a Function's forward: under autocast, the wrapper converts floating-point arguments to the
--- dtype cast_inputs, and runs forward without autocast. Without cast_inputs, returns fn itself.
--- The field `cast_inputs` of a Function has the same effect for all kinds of devices.
---@param fn fun(ctx: table, ...): any
---@param options? {device_type: string, cast_inputs: string}  the kind of device (any kind by
--- default), and the dtype
---@return fun(ctx: table, ...): any
function M.custom_fwd(fn, options)
   local a = fwd(fn, options or {})
   if not a.cast_inputs then return a.fn end
   return function(ctx, ...)
      local state = casts.current()
      local function on(kind)
         return state[kind] and (not a.device_type or kind == a.device_type)
      end
      if not state or a.device_type and not state[a.device_type] then return a.fn(ctx, ...) end
      local given = casts.inputs(table.pack(...), a.cast_inputs, on)
      local rest = {}
      for kind, dtype in pairs(state) do
         if a.device_type and kind ~= a.device_type then rest[kind] = dtype end
      end
      ctx.autocast = next(rest) and rest or nil
      local _ <close> = casts.scope(ctx.autocast)
      return (function(...) return ... end)(a.fn(ctx, table.unpack(given, 1, given.n)))
   end
end

--- Returns a Function's backward unchanged: the backward of every Function runs with the autocast
--- state of its forward.
---@param fn fun(ctx: table, ...): any
---@param options? {device_type: string}
---@return fun(ctx: table, ...): any
function M.custom_bwd(fn, options)
   return bwd(fn, options or {}).fn
end

--- Returns whether torch.autocast supports a kind of device.
---@param device_type string
---@return boolean
function M.is_autocast_available(device_type)
   return device_type == "cpu" or device_type == "cuda" or device_type == "sim"
end
checked.functions(M, "amp.", "is_autocast_available(device_type: string)")

M.autocast = torch.autocast

return M
