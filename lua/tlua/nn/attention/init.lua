-- init.lua - torch.nn.attention: chooses the implementation of scaled_dot_product_attention.
--
--    local attention = torch.nn.attention
--    local y = attention.sdpa_kernel(attention.SDPBackend.MATH, function()
--       return F.scaled_dot_product_attention(q, k, v)
--    end)
--
-- Each device has two implementations. FLASH_ATTENTION and EFFICIENT_ATTENTION both select its
-- fused kernel, which does not store the attention weights. MATH computes matrix products and a
-- softmax as separate operators, which autograd records. On a GPU, cuDNN's kernel is used if
-- CUDNN_ATTENTION is allowed and cuDNN supports the call.

local torch = require "tlua"
local args = require "tlua.args"
local lazy = require "tlua.lazy"
local scopes = require "tlua.scope"

local M = {}

--- PyTorch's names of the implementations.
---
---     local attention = torch.nn.attention
---     local F = torch.nn.functional
---     local x = torch.ones(1, 1, 2, 4)
---     attention.sdpa_kernel(attention.SDPBackend.MATH, function()
---        print(F.scaled_dot_product_attention(x, x, x):sum())
---     end)
---     --> tensor(8.)
---@names nn.attention.SDPBackend
---@enum nn.attention.SDPBackend
M.SDPBackend = {
   MATH = "MATH",
   FLASH_ATTENTION = "FLASH_ATTENTION",
   EFFICIENT_ATTENTION = "EFFICIENT_ATTENTION",
   CUDNN_ATTENTION = "CUDNN_ATTENTION",
}

-- The bit of each implementation in the setting sdp_backends. The bits are in the order of the
-- constants TL_SDP_... in core/device/api.h.
local bits <const> = {MATH = 1, FLASH_ATTENTION = 2, EFFICIENT_ATTENTION = 4, CUDNN_ATTENTION = 8}
local math_first <const> = 16

local known <const> = "one of SDPBackend's MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION and "
   .. "CUDNN_ATTENTION"

local function bit_of(name, backend)
   if not bits[backend] then args.refuse("nn.attention." .. name, "backend", known, backend) end
   return bits[backend]
end

--- Returns whether an implementation may be chosen.
---@param backend nn.attention.SDPBackend
---@return boolean
function M.is_allowed(backend)
   return torch._setting "sdp_backends" & bit_of("is_allowed", backend) ~= 0
end

--- Allows or forbids an implementation from now on; torch.backends.cuda.enable_flash_sdp and
--- similar functions call this function.
---@param backend nn.attention.SDPBackend
---@param allowed boolean
function M.allow(backend, allowed)
   local bit = bit_of("allow", backend)
   if type(allowed) ~= "boolean" then
      args.refuse("nn.attention.allow", "allowed", "true or false", allowed)
   end
   local set = torch._setting "sdp_backends" & ~bit
   torch._setting("sdp_backends", allowed and set | bit or set)
end

local expected <const> = known .. ", or a list of these"

local function set_of(backends, set_priority)
   local list = type(backends) == "table" and backends or {backends}
   local set = 0
   for _, name in ipairs(list) do
      if not bits[name] then args.refuse("nn.attention.sdpa_kernel", "backends", expected, name) end
      set = set | bits[name]
   end
   if #list == 0 then
      torch.raise(("nn.attention.sdpa_kernel: backends: expected %s, got none"):format(expected))
   end
   return set_priority and list[1] == "MATH" and set | math_first or set
end

local function run(set, fn, ...)
   scopes.check_function("nn.attention.sdpa_kernel", fn)
   local before = torch._setting "sdp_backends"
   return scopes.run(function() torch._setting("sdp_backends", set) end,
      function() torch._setting("sdp_backends", before) end, fn, ...)
end

local take = args.signature "nn.attention.sdpa_kernel(set_priority: boolean = false)"

--- Restricts scaled_dot_product_attention to these implementations while fn runs with the remaining
--- arguments or, without fn, until the returned scope is closed. A call that no allowed
--- implementation supports raises an error. The setting applies to the whole process.
---@param backends nn.attention.SDPBackend|nn.attention.SDPBackend[]
---@param options? {set_priority: boolean}|fun(...): any  set_priority: whether to prefer MATH to
--- the other backends if it is named first; this argument may be left out before fn
---@param fn? fun(...): any
---@param ... any
---@return any ...  fn's results, or a scope to be closed
function M.sdpa_kernel(backends, options, fn, ...)
   if type(options) == "table" and not getmetatable(options) then
      local set = set_of(backends, take(options).set_priority)
      return run(set, fn, ...)
   end
   local set = set_of(backends, false)
   if options == nil then return run(set, fn, ...) end
   if select("#", ...) == 0 and fn == nil then return run(set, options) end
   return run(set, options, fn, ...)
end

return lazy.load(M, {
   bias = "tlua.nn.attention.bias", flex_attention = "tlua.nn.attention.flex_attention",
})
