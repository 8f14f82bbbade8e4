-- schema.lua - parses an operator's signature, which uses PyTorch's notation:
--
--    add(Tensor self, Operand other, *, Number alpha=1) -> Tensor
--    max.dim(Tensor self, dim dim, bool keepdim=false) -> (Tensor values, Tensor indices)
--
-- Calls give parameters after `*` by name only. A default of nil makes a parameter optional.

local M = {}

--- The parameter types. Each row has the C type, the C value for an absent argument, the kind that
--- the binding uses, and the type's name for users.
M.types = {
   Tensor = {c = "tl_Tensor *", none = "NULL", kind = "TENSOR", lua = "Tensor"},
   Operand = {c = "tl_Tensor *", none = "NULL", kind = "OPERAND", lua = "Tensor|number"},
   ["Tensor[]"] = {
      c = "tl_Tensors ", none = "(tl_Tensors){0, NULL}", kind = "TENSORS", lua = "Tensor[]",
   },
   Number = {c = "tl_Scalar ", none = "tli_none()", kind = "NUMBER", lua = "number"},
   int = {c = "int64_t ", none = "TLI_NOINT", kind = "INT", lua = "integer"},
   dim = {c = "int64_t ", none = "TLI_NOINT", kind = "DIM", lua = "integer"},
   index = {c = "int64_t ", none = "TLI_NOINT", kind = "INDEX", lua = "integer"},
   bool = {c = "bool ", none = "false", kind = "BOOL", lua = "boolean"},
   -- an option whose only value is true; a call with this option selects the overload that has it
   ["true"] = {c = "bool ", none = "false", kind = "TRUE", lua = "true"},
   float = {c = "double ", none = "NAN", kind = "FLOAT", lua = "number"},
   ["int[]"] = {c = "tl_Ints ", none = "TLI_NOINTS", kind = "INTS", lua = "integer[]"},
   ["float[]"] = {c = "tl_Floats ", none = "TLI_NOFLOATS", kind = "FLOATS", lua = "number[]"},
   ["dim[]"] = {c = "tl_Ints ", none = "TLI_NOINTS", kind = "DIMS", lua = "integer[]"},
   ["dim[][]"] = {c = "tl_Ints ", none = "TLI_NOINTS", kind = "DIM_LISTS", lua = "integer[][]"},
   ["index[]"] = {c = "tl_Ints ", none = "TLI_NOINTS", kind = "INDICES", lua = "integer[]"},
   string = {c = "const char *", none = "NULL", kind = "STRING", lua = "string"},
   dtype = {c = "tl_DType ", none = "TL_NODTYPE", kind = "DTYPE", lua = "string"},
   device = {c = "tl_Device ", none = "TLI_NODEVICE", kind = "DEVICE", lua = "string|torch.device"},
   Generator = {c = "tli_Generator *", none = "NULL", kind = "GENERATOR", lua = "Generator"},
}

--- Result types besides one or several Tensors. `c` is the C type of the result.
M.results = {
   ["Tensor[]"] = {c = "tl_Tensors ", push = "tensors", lua = "Tensor[]"},
   bool = {c = "bool ", push = "bool", lua = "boolean"},
   int = {c = "int64_t ", push = "int", lua = "integer"},
   Number = {c = "tl_Scalar ", push = "number", lua = "number"},
   ["int[]"] = {c = "tl_Ints ", push = "ints", lua = "integer[]"},
}

local function fail(text, why)
   error(("schema %q: %s"):format(text, why), 0)
end

local function parse_default(text)
   if text == "true" or text == "false" or text == "nil" then
      return text
   end
   if text == "inf" or text == "-inf" then
      return text
   end
   if text:match("^%-?[%d.]+e?%-?%d*$") or text:match("^'.*'$") then
      return text
   end
   if text:match("^{[%d, -]*}$") then
      return text
   end
   return nil
end

local function parse_param(text, piece)
   local type_name, optional, name, default =
      piece:match("^([%w]+[%[%]%d]*)(%??)%s+([%w_]+)=?(.*)$")
   if not type_name then
      fail(text, "cannot read parameter " .. piece)
   end
   local expand = type_name:match("%[(%d+)%]$")
   type_name = type_name:gsub("%[%d+%]$", "[]")
   local type = M.types[type_name] or fail(text, "unknown type " .. type_name)
   local has_default = piece:find("=", 1, true) ~= nil
   if has_default and not parse_default(default) then
      fail(text, "cannot read default " .. default)
   end
   return {
      name = name, type = type_name, info = type, expand = tonumber(expand) or 0,
      optional = optional == "?" or has_default, default = has_default and default or nil,
   }
end

-- Splits a list at the commas outside braces.
local function split(list)
   local out, depth, start = {}, 0, 1
   for i = 1, #list do
      local c = list:sub(i, i)
      if c == "{" then depth = depth + 1 elseif c == "}" then depth = depth - 1 end
      if c == "," and depth == 0 then
         out[#out + 1] = list:sub(start, i - 1)
         start = i + 1
      end
   end
   out[#out + 1] = list:sub(start)
   return out
end

local function parse_params(text, list)
   local params, keyword_only = {}, false
   if list:match("^%s*$") then
      return params
   end
   for _, piece in ipairs(split(list)) do
      piece = piece:match("^%s*(.-)%s*$")
      if piece == "*" then
         keyword_only = true
      else
         local vararg
         piece, vararg = piece:gsub("%.%.%.", "")
         local param = parse_param(text, piece)
         param.keyword_only, param.vararg = keyword_only, vararg > 0
         params[#params + 1] = param
         params[param.name] = param
      end
   end
   return params
end

local function parse_results(text, list)
   local inner = list:match("^%((.*)%)$")
   if list == "self" then
      return {kind = "self"}
   elseif inner then
      local names = {}
      for name in inner:gmatch("Tensor%s+([%w_]+)") do
         names[#names + 1] = name
      end
      return {kind = "tensors", names = names, count = #names}
   elseif list == "Tensor" then
      return {kind = "tensor", names = {"result"}, count = 1}
   elseif M.results[list] then
      return {kind = "value", info = M.results[list]}
   end
   fail(text, "unknown result " .. list)
end

--- Parses one signature.
---@param text string
---@return table  {name=, overload=, lua=, cname=, params=, results=}
function M.parse(text)
   text = text:gsub("%s+", " ")
   local full, list, results = text:match("^([%w_.]+)%((.*)%)%s*%->%s*(.+)$")
   if not full then
      fail(text, "expected name(parameters) -> results")
   end
   local name, overload = full:match("^([%w_]+)%.?([%w_]*)$")
   return {
      text = text, lua = name, overload = overload ~= "" and overload or nil,
      cname = full:gsub("%.", "_"), params = parse_params(text, list),
      results = parse_results(text, results),
   }
end

return M
