-- types.lua - the types that the porter infers for Python values. A type is a table with `k`:
--
--    tensor (bool: a mask; pos: positions)   int (neg: perhaps negative; low: its least value)
--    pos (an integer that counts from 1)  float  num
--    bool  str  none  list (e: items)  tuple (es: items; multi: Lua holds it as several values)
--    dict (v: values)  set  file  loader  optimizer  device  dtype  args  iter
--    nn (class: a layer's name)  lib (path)  class (c)  inst (c)  fn (f)  local (file: a module)
--    mixed (values of several kinds)
--
-- nil stands for an unknown type.

local M = {}

for name in ([[tensor int pos float num bool str none list tuple dict set file loader optimizer
   device dtype args iter nn fn dataset module]]):gmatch "%a+" do
   M[name] = {k = name}
end
M.mask = {k = "tensor", bool = true}
M.positions = {k = "tensor", pos = true}
M.negative = {k = "int", neg = true}

function M.at_least(n) return {k = "int", low = n} end
function M.list_of(e) return {k = "list", e = e} end
function M.dict_of(v) return {k = "dict", v = v} end
function M.tuple_of(es, multi) return {k = "tuple", es = es, multi = multi} end
function M.layer(name) return {k = "nn", class = name} end

--- Returns whether a type's kind is one of the words in `kinds`.
function M.is(ty, kinds)
   if not ty then return false end
   for kind in kinds:gmatch "%a+" do
      if ty.k == kind then return true end
   end
   return false
end

local numbers = {int = 1, pos = 1, num = 2, float = 3}

--- Returns the type of a variable that has held values of two types: of the kind `mixed` if the
--- types have nothing in common.
function M.join(a, b)
   if not a or not b then return a or b end
   if a == b then return a end
   if a.k == "local" or a.k == "lib" then return b end
   if b.k == "local" or b.k == "lib" then return a end
   if a.k == "none" then return setmetatable({maybe = true}, {__index = b}) end
   if b.k == "none" then return setmetatable({maybe = true}, {__index = a}) end
   if numbers[a.k] and numbers[b.k] then
      if a.k == "int" and b.neg then return b end
      if a.k == "int" and b.k == "int" and not a.neg then
         return a.low and b.low and M.at_least(math.min(a.low, b.low)) or M.int
      end
      return numbers[a.k] >= numbers[b.k] and a or b
   end
   if a.k ~= b.k then return {k = "mixed"} end
   if a.k == "nn" and a.class ~= b.class then return M.nn end
   if a.k == "list" and not a.e or a.k == "dict" and not a.v then return b end
   if a.k == "tuple" and #(a.es or {}) ~= #(b.es or {}) then return {k = "tuple"} end
   return a
end

--- Returns whether Lua's `and`, `or` and `not` treat all values of a type as Python does, because
--- no value of the type is 0, "" or empty. Of a value that may be None, a test is taken to mean
--- None alone.
function M.plain_truth(ty)
   return ty and (ty.maybe or M.is(ty, [[bool none nn fn class inst file device dtype
      optimizer module dataset loader]]))
end

--- Returns true if a value of this type can never be false or nil; then `c and a or b` is correct
--- if a has this type.
function M.never_false(ty)
   return ty and not ty.maybe and M.is(ty, [[tensor int pos float num str list tuple dict set file
      loader optimizer device dtype nn inst class fn lib]])
end

local names = {
   {"^done$", "bool"}, {"^is_", "bool"}, {"^has_", "bool"}, {"^use_", "bool"},
   {"^terminated$", "bool"}, {"^truncated$", "bool"}, {"^verbose$", "bool"}, {"^debug$", "bool"},
   {"^shuffle$", "bool"}, {"loader$", "loader"}, {"dataset$", "dataset"}, {"^optim", "optimizer"},
   {"optimizer$", "optimizer"}, {"^model$", "nn"}, {"^net$", "nn"}, {"^criterion$", "nn"},
   {"^device$", "device"}, {"^epochs?$", "int"}, {"^batch_size$", "int"}, {"^n$", "int"},
   {"^seed$", "int"}, {"^num_", "int"}, {"^n_", "int"}, {"_size$", "int"}, {"_dim$", "int"},
   {"^dim$", "int"}, {"_len$", "int"}, {"^bsz$", "int"}, {"^lr$", "float"}, {"^path$", "str"},
   {"_path$", "str"}, {"^filename$", "str"}, {"^text$", "str"}, {"^logits$", "tensor"},
   {"^loss$", "tensor"}, {"^targets?$", "tensor"}, {"^inputs?$", "tensor"},
   {"^outputs?$", "tensor"}, {"^mask$", "tensor"}, {"^labels?$", "tensor"}, {"^images?$", "tensor"},
   {"^logvar$", "tensor"}, {"^mu$", "tensor"},
}

--- Guesses the type of a parameter from its name.
function M.by_name(name)
   for _, row in ipairs(names) do
      if name:find(row[1]) then return M[row[2]] end
   end
end

local annotations = {
   int = "int", float = "float", bool = "bool", str = "str", list = "list", List = "list",
   dict = "dict", Dict = "dict", tuple = "tuple", Tuple = "tuple", Tensor = "tensor",
   Module = "nn", set = "set", Sequence = "list", DataLoader = "loader", Optimizer = "optimizer",
   Parameter = "tensor",
}

--- Returns the type that an annotation (a node) names.
function M.by_annotation(node)
   if not node then return nil end
   if node._ == "Name" then return annotations[node.id] and M[annotations[node.id]] end
   if node._ == "Attribute" then return annotations[node.attr] and M[annotations[node.attr]] end
   if node._ == "Subscript" then
      local head = node.value.id or node.value.attr
      local inner = node.slice
      if head == "Optional" then
         local ty = M.by_annotation(inner)
         return ty and setmetatable({maybe = true}, {__index = ty})
      elseif head == "List" or head == "list" or head == "Sequence" then
         return M.list_of(M.by_annotation(inner))
      elseif head == "Dict" or head == "dict" then
         return M.dict_of(inner._ == "Tuple" and M.by_annotation(inner.elts[2]) or nil)
      end
      return annotations[head] and M[annotations[head]]
   end
end

return M
