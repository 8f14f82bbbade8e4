-- fusion_operators.lua FOLDER: runs cases for fusion_spec.lua, each with its own kernel cache in FOLDER. Each case does
-- the same work eagerly and in a graph, twice, and compares the results bit for bit. It also counts the graph's
-- kernels, because an operator that cannot be fused would split the chain into several kernels.

local torch = require "tlua"
local replayed = require "spec.cuda.bits".replayed
local cuda, F = torch.cuda, torch.nn.functional
local folder = arg[1]

local function count()
   local pipe = assert(io.popen(("ls '%s' | grep -c cubin"):format(folder)))
   local n = tonumber(pipe:read "l")
   pipe:close()
   return n
end

local function case(name, kernels, inputs, fn)
   local before = count()
   local first, second = replayed(name, inputs, fn)
   if count() - before ~= kernels then
      print(("%s: expected %d kernels, got %d"):format(name, kernels, count() - before))
      os.exit(1)
   end
   return first, second
end

local function random(dtype, ...) return (torch.randn(...) * 2):to(dtype or "float32"):to "cuda" end

torch.manual_seed(1)

-- Dropout ---------------------------------------------------------------------------------------------------

-- The number of elements is no multiple of the vector width, so the elements after the last whole vector need random
-- words too.
for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16"} do
   local first, second = case("dropout, " .. dtype, 1, {random(dtype, 1003), random(dtype, 1003)},
      function(x, y) return {F.dropout(x * 2, 0.3) + y, F.dropout(y, 0.6)} end)
   assert(not torch.equal(first[1], second[1]), "the same numbers at both replays")
end
case("dropout of misaligned elements", 1, {random(nil, 600)},
   function(x) return {F.dropout(x:narrow(1, 2, 599) * 2, 0.25) - 1} end)
case("dropout beside a row that all have", 1, {random(nil, 6, 10), random(nil, 10)},
   function(x, row) return {F.dropout(x + row, 0.5) * row} end)
for _, p in ipairs {0.999, 1} do
   case("dropout by " .. p, p < 1 and 1 or 0, {random(nil, 64)}, function(x) return {F.dropout(x * 2, p) + 1} end)
end
case("dropout and what is added", 1, {random(nil, 8, 12), random(nil, 8, 12)},
   function(x, y) return {F.dropout_add(x * 3, y, 0.2):relu()} end)
case("the gradient of dropout", 1, {random(nil, 40):requires_grad_(), random(nil, 40)}, function(x, g)
   local y = F.dropout(x * 2, 0.4) * g
   return {y, torch.autograd.grad(y, x, {grad_outputs = g})}
end)

-- SwiGLU and rotations ----------------------------------------------------------------------------------------

for _, dtype in ipairs {"float32", "float64", "bfloat16"} do
   case("swiglu, " .. dtype, 1, {random(dtype, 6, 20), random(dtype, 6, 20)},
      function(x, gate) return {F.swiglu(x * 2, gate + 1):mul(0.5)} end)
   case("swiglu of halves, " .. dtype, 1, {random(dtype, 6, 20), random(dtype, 6, 10), random(dtype, 20)},
      function(x, y, bias) return {F.swiglu(x) + y, F.swiglu(x, nil, bias)} end)
end
case("the gradient of swiglu", 1, {random(nil, 6, 20), random(nil, 6, 20):requires_grad_(), random(nil, 6, 20)},
   function(x, gate, g)
      x:requires_grad_()
      local y = F.swiglu(x, gate)
      local a, b = torch.autograd.grad(y, {x, gate}, {grad_outputs = g * 2})
      return {a * 3, b - 1}
   end)
case("the gradient of swiglu of halves", 1, {random(nil, 6, 20):requires_grad_(), random(nil, 6, 10)},
   function(x, g)
      return {torch.autograd.grad(F.swiglu(x), x, {grad_outputs = g * 2})}
   end)

for _, dtype in ipairs {"float32", "float64", "float16"} do
   for _, interleaved in ipairs {true, false} do
      local angles = random(dtype == "float64" and dtype or nil, 5, 1, 4)
      -- With interleaved = false, only the rotation's kernel is new, because the case before has compiled q * 0.5 + k.
      case(("rotations, %s, %s"):format(dtype, interleaved), interleaved and 2 or 1,
         {random(dtype, 2, 5, 3, 8), random(dtype, 2, 5, 3, 8), angles:cos(), angles:sin()}, function(q, k, cos, sin)
            q, k = F.rotary_embedding(q, cos, sin, interleaved), F.rotary_embedding(k, cos, sin, interleaved)
            return {q, k, q * 0.5 + k}
         end)
   end
end

-- Gradients of activations ------------------------------------------------------------------------------------

local activations <const> = {
   "relu", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "celu", "selu", "softplus", "hardtanh", "relu6",
   "hardswish", "hardsigmoid", "mish", "logsigmoid", "softshrink", "hardshrink", "softsign", "tanhshrink",
}
local edges = torch.tensor {0 / 0, math.huge, -math.huge, 0.0, -0.0, 1e-40, -1e30, 88}
for _, dtype in ipairs {"float32", "bfloat16"} do
   for first = 1, #activations, 5 do -- a chain of one kernel has room for the gradients of five activations
      local last = math.min(first + 4, #activations)
      local x = torch.cat({torch.randn(57) * 3, edges}):to(dtype):to "cuda"
      local name = ("gradients of %s to %s, %s"):format(activations[first], activations[last], dtype)
      case(name, 1, {x:requires_grad_(), random(dtype, 65)}, function(a, g)
         local results = {}
         for i = first, last do
            local y = (rawget(F, activations[i]) or torch[activations[i]])(a)
            results[#results + 1] = torch.autograd.grad(y, a, {grad_outputs = g})
         end
         return results
      end)
   end
end
for _, name in ipairs {"linear_relu", "linear_gelu"} do
   for _, bias in ipairs {true, false} do
      case(("the gradient of %s, bias %s"):format(name, bias), 1, {random(nil, 9, 6):requires_grad_(),
         random(nil, 5, 6), random(nil, 5):requires_grad_(bias), random(nil, 9, 5)}, function(x, w, b, g)
         local y = F[name](x, w, bias and b or nil)
         g = bias and g * 2 + 1 or g * 2 - 1 -- differs from all other cases, so that their kernels cannot be reused
         return {torch.autograd.grad(y, bias and {x, b} or {x}, {grad_outputs = g})}
      end)
   end
end

-- Integers ---------------------------------------------------------------------------------------------------

for _, dtype in ipairs {"int64", "int32", "int16", "uint8"} do
   local x = torch.arange(-50, 50):abs():to(dtype):to "cuda"
   local y = (torch.arange(100):remainder(7) + 1):to(dtype):to "cuda"
   case("divisions, " .. dtype, 1, {x, y}, function(a, b)
      return {(a + 1) // b, a % b * 2, torch.fmod(a, b), torch.div(a, b, {rounding_mode = "trunc"})}
   end)
end
do
   local x = torch.tensor({-7, 7, math.mininteger, 9}, {device = "cuda"})
   local y = torch.tensor({2, -2, -1, 3}, {device = "cuda"})
   case("divisions of negative numbers", 1, {x, y},
      function(a, b) return {a // b + 1, a % b, torch.fmod(a, b), torch.div(a, b, {rounding_mode = "trunc"})} end)
   local g = cuda.Graph()
   local result = cuda.graph(g, function() return (x * 1) // y + 1 end)
   y[3] = 0
   g:replay()
   local ok, message = pcall(cuda.synchronize)
   local plain, expected = pcall(function()
      local _ = (x * 1) // y + 1
      cuda.synchronize()
   end)
   assert(not ok and not plain and message:find "floor_divide.*zero", message)
   assert(message:gsub("%S+%.lua:%d+", "") == expected:gsub("%S+%.lua:%d+", ""), message .. expected)
   assert(torch.equal(result:cpu(), torch.tensor {-3, -3, 1, 4}))
   y[3] = 1
   g:replay()
   cuda.synchronize() -- waits for the device, so that all tensors can be freed
end
print "the same bits"
