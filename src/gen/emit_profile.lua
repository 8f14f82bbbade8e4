-- emit_profile.lua - writes the code by which profilers and tracers observe an operator. A wrapper
-- opens a profiler span and tells a tracer about the call (core/observe/trace.h). The generated
-- code branches to the wrapper or to the plain function. While nothing observes, this branch is the
-- only cost.

local calls = require "emit_calls"
local cdecl = require "cdecl"
local fill = require "template"

local M = {off = false} -- off = true: the build observes no operator

local function fail(op, why)
   error(("%s:%d: operator %s: flops: %s"):format(op.file, op.line, op.cname, why), 0)
end

-- Returns the C expression for a tensor that a formula names.
local function tensor_c(op, name)
   local param = op.params[name]
   if param and (param.type == "Tensor" or param.type == "Operand") then return name end
   for k, result in ipairs(op.results.names or {}) do
      if result == name then
         return op.results.kind == "tensor" and "made_" or ("out[%d]"):format(k - 1)
      end
   end
   fail(op, "no tensor " .. name)
end

-- Translates a formula for the number of FLOPs to C. A formula is arithmetic with three functions:
-- numel(tensor), which is 0 for a missing tensor, size(tensor, dimension), whose dimensions count
-- as in Lua, and choose(boolean parameter, formula, formula). The profiler ignores the value of the
-- formula if the operators that the call runs have counted at least as many FLOPs.
local function flops_c(op, text)
   text = text:gsub("choose(%b())", function(list)
      local flag, yes, no = list:match "^%(%s*([%w_]+)%s*,(.*),(.-)%)$"
      local param = op.params[flag]
      if not (param and param.type == "bool") then fail(op, "choose" .. list) end
      return ("(%s ? %s : %s)"):format(flag, yes, no)
   end)
   text = text:gsub("numel%(([%w_]+)%)", function(name)
      return ("tli_flops_numel(%s)"):format(tensor_c(op, name))
   end)
   return (text:gsub("size%(([%w_]+), (%-?%d+)%)", function(name, dim)
      local d = tonumber(dim)
      return ("tli_flops_size(%s, %d)"):format(tensor_c(op, name), d > 0 and d - 1 or d)
   end))
end

-- Returns the name that the profiler's tables show for an operator.
local function title(op, inplace)
   local name = op.internal and op.cname or op.lua
   if op.module == "linalg" then name = "linalg." .. name end
   return name .. (inplace and "_" or "")
end

local function inputs_c(op)
   local list = {}
   for _, p in ipairs(op.params) do
      if p.type == "Tensor[]" then
         list[#list + 1] = ("{%s.v, %s.n}"):format(p.name, p.name)
      elseif cdecl.tensor_types[p.type] then
         list[#list + 1] = ("{&%s, 1}"):format(p.name)
      end
   end
   if #list == 0 then return "NULL, 0" end
   return ("(const tli_SpanInput[]){%s}, %d"):format(table.concat(list, ", "), #list)
end

-- Returns the parts of an operator's wrapper that depend on the operator's kind of result: the
-- wrapper's arguments, the C code that passes the results to the tracer, and the C code that
-- releases the results.
local function parts_of(op, inplace)
   local kind = op.results.kind
   local in_place = inplace and not op.inplace_form
   local parts = {
      suffix = in_place and "_" or "", args = cdecl.names(op),
      single = not inplace and kind == "tensor", results = "NULL, 0", drop = "made_ = false",
   }
   if parts.single then
      parts.results, parts.drop = "&made_, 1", "tli_release(made_), made_ = NULL"
   elseif not inplace and kind == "tensors" then
      parts.args[#parts.args + 1] = "out"
      parts.results = ("out, %d"):format(op.results.count)
      parts.drop = ("tli_release_results(out, %d), made_ = false"):format(op.results.count)
   elseif not inplace and kind == "value" then
      parts.args[#parts.args + 1] = "out"
      if op.results.info.push == "tensors" then
         parts.results, parts.drop = "out->v, out->n", "tli_tensors_free(out), made_ = false"
      end
   end
   return parts
end

--- Writes the function observed_<op>, which calls another function with the same arguments and
--- notifies the tracer and the profiler before and after the call.
---@param op table
---@param inner string  the prefix of that function's name: "plain" or "tlo"
---@param inplace? boolean  whether it is the in-place form
---@param traced_only? boolean  whether the profiler sees only the operators that this one calls
---@return string
function M.wrapper(op, inner, inplace, traced_only)
   if M.off then return nil end
   local in_place, kind = inplace and not op.inplace_form, op.results.kind
   local parts = parts_of(op, inplace)
   local formula = op.flops or op.pointwise and "numel(result)"
   local flops = "0"
   if formula and (inplace or kind == "self") then
      formula = formula:gsub("%(result", "(" .. op.params[1].name)
   end
   if formula then
      flops = ("made_ && tli_span_flops() ? %s : 0"):format(flops_c(op, formula))
   end
   return fill([[
static __attribute__((cold, noinline)) $prototype {
  const tli_CallArg args_[] = {$values};
  tli_Traced traced_ = tli_trace_begin(&tli_call_$op, args_);
  if (traced_ == TLI_TRACE_REFUSED) return $failed;
?span|  tli_Span span_ = tli_span_open(TLI_SPAN_OPERATOR, "$title", $inputs);
  ${type}made_ = ${inner}_$op($args);
?span|  tli_span_close(span_, $flops);
  if (traced_ == TLI_TRACED && !tli_trace_end(&tli_call_$op, args_, made_, $results) && made_)
    $drop;
  return made_;
}]], {
      prototype = in_place and cdecl.inplace_prototype(op, "observed")
         or cdecl.prototype(op, "observed"),
      title = title(op, in_place), inputs = inputs_c(op), span = not traced_only,
      type = parts.single and "tl_Tensor *" or "bool ", inner = inner,
      op = op.cname .. parts.suffix,
      args = table.concat(parts.args, ", "), flops = flops, values = calls.values(op),
      failed = parts.single and "NULL" or "false", results = parts.results, drop = parts.drop,
   })
end

--- Returns C code that calls observed_<name> while a profiler or tracer observes, and tlo_<name>
--- otherwise.
---@return string
function M.choice(name, args)
   local call = ("%s(%s)"):format(name, args)
   if M.off then return "tlo_" .. call end
   return ("(tli_profiling() ? observed_%s : tlo_%s)"):format(call, call)
end

--- Returns the call of a hand-written operator, wrapped in a profiler span.
---@return string
function M.call(op, args)
   -- the C code of an operator without a formula opens its span itself
   local opens_span = op.flops ~= nil
   if opens_span or M.off then return ("tlo_%s(%s)"):format(op.cname, args) end
   return M.choice(op.cname, args)
end

--- Renames a generated function tlo_<op> to plain_<op>. A new tlo_<op> calls plain_<op> or, while a
--- profiler runs, observed_<op>.
---@param op table
---@param text string
---@param inplace? boolean
---@param traced_only? boolean
---@return string
function M.hooked(op, text, inplace, traced_only)
   if M.off then return text end
   local in_place = inplace and not op.inplace_form
   local name = op.cname .. (in_place and "_" or "")
   local head = in_place and cdecl.inplace_prototype(op) or cdecl.prototype(op)
   local plain = in_place and cdecl.inplace_prototype(op, "plain") or cdecl.prototype(op, "plain")
   local args = parts_of(op, inplace).args
   assert(text:sub(1, #head) == head, text)
   return fill([[
static $plain$body
$wrapper
$head {
  return tli_profiling() ? observed_$name($args) : plain_$name($args);
}]], {
      plain = plain, body = text:sub(#head + 1),
      wrapper = M.wrapper(op, "plain", inplace, traced_only),
      head = head, name = name, args = table.concat(args, ", "),
   })
end

return M
