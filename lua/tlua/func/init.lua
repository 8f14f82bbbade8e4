-- init.lua - torch.func: transformations of functions. Each transformation is loaded when it is
-- first used.

local lazy = require "tlua.lazy"

local modules = lazy.modules("tlua.func", {
   derivatives = "grad grad_and_value vjp jvp linearize jacrev jacfwd hessian",
   vmap = "vmap",
   norms = "replace_all_batch_norm_modules_",
})
modules.functional_call = "tlua.nn.utils.stateless"
modules.stack_module_state = "tlua.nn.utils.stateless"

return lazy.load({}, modules)
