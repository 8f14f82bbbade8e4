-- cdecl.lua - writes the C declarations of operators, and has helpers for lists of text.

local M = {}

--- The types of parameters whose arguments are tensors or lists of tensors.
M.tensor_types = {Tensor = true, Operand = true, ["Tensor[]"] = true}

--- Returns a C condition that is true if a call has a complex tensor, number or dtype among its
--- arguments. Returns nil if no parameter can be complex.
function M.complex_arguments(op)
   local tensors, tests = {}, {}
   for _, p in ipairs(op.params) do
      if p.type == "Tensor" or p.type == "Operand" then
         tensors[#tensors + 1] = p.name
      elseif p.type == "Tensor[]" then
         tests[#tests + 1] = ("tli_any_complex(%s.v, (int)%s.n)"):format(p.name, p.name)
      elseif p.type == "Number" then
         tests[#tests + 1] = ("%s.kind == TL_COMPLEX"):format(p.name)
      elseif p.type == "dtype" then
         tests[#tests + 1] = ("tli_complex_wanted(%s)"):format(p.name)
      end
   end
   if #tensors > 0 then
      table.insert(tests, 1, ("tli_any_complex((tl_Tensor *[]){%s}, %d)"):format(
         table.concat(tensors, ", "), #tensors))
   end
   return #tests > 0 and table.concat(tests, " || ") or nil
end

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

--- Returns the C prototype of tlo_<op> without the semicolon. `prefix` replaces tlo.
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

--- Returns the C prototype of the in-place form tlo_<op>_ without the semicolon. `prefix` replaces
--- tlo.
function M.inplace_prototype(op, prefix)
   local params = table.concat(M.parameters(op), ", ")
   return ("bool %s_%s_(%s)"):format(prefix or "tlo", op.cname, params)
end

return M
