-- deferred.lua - linear layers whose backward pass computes the gradient of the argument at once,
-- and the gradients of weight and bias later: "Zero Bubble Pipeline Parallelism" (Qi et al., 2023).

local torch = require "tlua"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local Function = require "tlua.autograd.Function"
local Linear = require "tlua.nn.modules.Linear"

local M = {}

-- A function whose only purpose is its backward pass, which returns the gradients of weight and
-- bias. It is run in a separate pass, which calls the parameters' hooks as any other pass does.
local Late = class.class("pipelining.Late", Function)

function Late.forward(ctx, weight, bias, x, grad)
   ctx:save_for_backward(x, grad)
   ctx.has_bias = bias ~= nil
   return weight:new_zeros({})
end

function Late.backward(ctx)
   local x, grad = ctx:saved_tensors()
   grad = grad:reshape(-1, grad:size(-1))
   return grad:t():matmul(x:reshape(-1, x:size(-1))), ctx.has_bias and grad:sum(1) or nil
end

local Early = class.class("pipelining.Early", Function)

-- Runs the layer. The second parameter is not used. It gets a tensor that requires a gradient, so
-- that autograd records the call even if x requires none.
function Early.forward(ctx, _, x, weight, bias, store)
   ctx:save_for_backward(x, weight, bias)
   ctx.store = store
   return F.linear(x, weight, bias)
end

function Early.backward(ctx, grad)
   local x, weight, bias = ctx:saved_tensors()
   local list = ctx.store.list
   list[#list + 1] = function()
      local _ <close> = torch.enable_grad()
      Late:apply(weight, bias, x:detach(), grad:detach()):backward()
   end
   return nil, ctx.needs_input_grad[2] and grad:matmul(weight) or nil, nil, nil
end

--- While store.on is set, makes all linear layers of a module append functions that compute their
--- parameters' gradients to store.list.
---@param module nn.Module
---@param store {on: boolean, list: function[]}
function M.defer(module, store)
   for _, layer in ipairs(module:modules()) do
      -- a layer whose forward method was replaced is not changed
      if class.isinstance(layer, Linear) and layer.forward == Linear.forward then
         local plain = layer.forward
         rawset(layer, "forward", function(self, x, ...)
            if not store.on or not torch.is_grad_enabled() or select("#", ...) > 0 then
               return plain(self, x, ...)
            end
            local anchor = torch.empty(0, {requires_grad = true})
            local weight, bias = self.weight, self.bias
            return Early:apply(anchor, x, weight, bias, store)
         end)
      end
   end
end

return M
