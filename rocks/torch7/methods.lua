-- methods.lua - Torch7's methods for tlua's nn.Module. It has those methods that can be used
-- together with autograd.

local torch = require "tlua"
local args = require "tlua.args"

return function(Module)
   --- Computes the module's output, as forward does. A module defines either this method or
   --- forward.
   ---@param ... any
   ---@return any ...
   function Module:updateOutput(...)
      return self:forward(...)
   end

   --- Zeroes the gradients, in place.
   ---@return nn.Module self
   function Module:zeroGradParameters()
      return self:zero_grad {set_to_none = false}
   end

   --- Moves all parameters into one vector and their gradients into another, and returns both
   --- vectors. From then on each parameter is a view of a part of the vector, and so is each
   --- gradient. So gradients must only be zeroed in place, as zeroGradParameters does.
   ---@return Tensor parameters
   ---@return Tensor gradients
   function Module:getParameters()
      local list, total = self:parameters(), 0
      if #list == 0 then torch.raise(torch.type(self) .. ".getParameters: there are none") end
      local dtype, device = list[1].dtype, list[1].device
      for _, p in ipairs(list) do
         total = total + p:numel()
         if p.dtype ~= dtype or p.device ~= device then
            torch.raise(("%s.getParameters: expected parameters of one dtype and device, got %s on "
               .. "%s and %s on %s"):format(torch.type(self), dtype, device, p.dtype, p.device))
         end
      end
      local _ <close> = torch.no_grad()
      local place = {dtype = dtype, device = device}
      local flat, grads, at = torch.empty({total}, place), torch.zeros({total}, place), 1
      for _, p in ipairs(list) do
         local n, shape, grad = p:numel(), p.shape, p.grad
         local part, grad_part = flat:narrow(1, at, n), grads:narrow(1, at, n)
         part:copy_(p:detach():reshape(-1))
         if grad then grad_part:copy_(grad:reshape(-1)) end
         p.grad = nil
         p.data = part:view(shape)
         if p.requires_grad then p.grad = grad_part:view(shape) end
         at = at + n
      end
      return flat, grads
   end

   --- Finds the modules of the class with the given name. Returns two lists: the modules, and for
   --- each of them the module that contains it. If this module itself is of the class, the second
   --- list has this module for it.
   ---@param type_name string  such as "nn.Linear"
   ---@return nn.Module[] modules
   ---@return nn.Module[] containers
   function Module:findModules(type_name)
      if type(type_name) ~= "string" then
         args.refuse("findModules", "type_name", "a string", type_name)
      end
      local modules, containers, seen = {}, {}, {}
      local function visit(module, container)
         if seen[module] then return end
         seen[module] = true
         if torch.type(module) == type_name then
            modules[#modules + 1], containers[#containers + 1] = module, container
         end
         for _, child in ipairs(module:children()) do visit(child, module) end
      end
      visit(self, self)
      return modules, containers
   end

   --- Calls `callback` with this module and all its descendants, and replaces each module by the
   --- result.
   ---@param callback fun(module: nn.Module): nn.Module
   ---@return nn.Module  the module that replaces this one
   function Module:replace(callback)
      if type(callback) ~= "function" then
         args.refuse("replace", "callback", "a function", callback)
      end
      local taken = callback(self)
      if type(taken) ~= "table" or not torch.isinstance(taken, Module) then
         args.refuse("replace", "callback", "a module from it", taken)
      end
      for name, child in self:named_children() do self[name] = child:replace(callback) end
      return taken
   end

   --- Returns this module and all its descendants, parents before children, each once.
   ---@return nn.Module[]
   function Module:listModules()
      return self:modules()
   end

   --- Drops the results in the fields `output` and `gradInput` of all modules, so that a saved
   --- model is smaller. tlua's own modules store no results in these fields.
   ---@return nn.Module self
   function Module:clearState()
      for _, module in ipairs(self:modules()) do
         module.output, module.gradInput = nil, nil
      end
      return self
   end
end
