-- cdecl.lua - writes an operator's declarations in C, and has helpers for lists of text.

local M = {}

--- Types of parameters that are tensors.
M.tensor_types = {Tensor = true, Operand = true, ["Tensor[]"] = true}

function M.map(list, fn)
   local out = {}
   for i, item in ipairs(list) do
      out[i] = fn(item, i)
   end
   return out
end

function M.parameters(op)
   return M.map(op.params, function(p) return p.info.c .. p.name end)
end

function M.names(op)
   return M.map(op.params, function(p) return p.name end)
end

--- Returns the C prototype of tlo_<op>, or with another prefix, without the semicolon.
function M.prototype(op, prefix)
   local list, kind = M.parameters(op), op.results.kind
   local result = "bool "
   if kind == "tensor" then
      result = "tl_Tensor *"
   elseif kind == "tensors" then
      list[#list + 1] = "tl_Tensor **out"
   elseif kind == "value" then
      list[#list + 1] = op.results.info.c .. "*out"
   end
   local params = #list == 0 and "void" or table.concat(list, ", ")
   return ("%s%s_%s(%s)"):format(result, prefix or "tlo", op.cname, params)
end

--- Returns the prototype of the in-place form tlo_<op>_.
function M.inplace_prototype(op, prefix)
   local params = table.concat(M.parameters(op), ", ")
   return ("bool %s_%s_(%s)"):format(prefix or "tlo", op.cname, params)
end

return M
