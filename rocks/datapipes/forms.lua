-- forms.lua - defines the functional forms of pipes: pipe:batch(4) is the same as Batcher(pipe, 4).

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local function check_name(base, name)
   if type(name) ~= "string" or not name:find "^[%a_][%w_]*$" then
      args.refuse(base.__name, "name", "a name of letters, digits and underscores", name)
   end
end

local function check_callable(base, what, value)
   local info = getmetatable(value)
   if type(value) ~= "function" and not (type(info) == "table" and info.__call) then
      args.refuse(base.__name, what, what == "fn" and "a function" or "a class or a function",
         value)
   end
end

-- Adds a functional form to the pipes of a base class, IterDataPipe or MapDataPipe.
local function add(base, name, fn)
   base.functions[name] = fn
   base[name] = fn
end

--- Adds `register_function`, `register_datapipe_as_function` and the library's functional forms to
--- a base class. The class behind a form is loaded when the form is first used.
---@param base table
---@param module string  the module that defines the classes
---@param forms table<string, string>  maps each form to the name of its class
function M.install(base, module, forms)
   base.functions = {}
   for name, class_name in pairs(forms) do
      add(base, name, function(...) return require(module)[class_name](...) end)
   end

   --- Makes `fn` a method, called a functional form, of all pipes that derive from the base class.
   --- If the name is an existing functional form, `fn` replaces it. The name of any other method
   --- raises an error.
   function base.register_function(name, fn)
      check_name(base, name)
      check_callable(base, "fn", fn)
      if base[name] ~= nil and base.functions[name] == nil then
         torch.raise(("%s: name: expected a name that is not in use, got the method %s"):format(
            base.__name, name))
      end
      add(base, name, fn)
   end

   --- Makes `cls` a method of all pipes that derive from the base class. cls is a class, or a
   --- function that takes a pipe and further arguments and returns a pipe.
   function base.register_datapipe_as_function(name, cls)
      check_name(base, name)
      check_callable(base, "cls", cls)
      if base[name] ~= nil then
         torch.raise(("%s: name: expected a name that is not in use, got %s"):format(
            base.__name, name))
      end
      add(base, name, function(...) return cls(...) end)
   end
end

return M
