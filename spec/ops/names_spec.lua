-- Tests the names of operators in errors and in grad_fn. An error must contain the name that the user called, and
-- grad_fn must print as PyTorch's node. The names of internal entries of the operator table must not occur.

local torch = require "tlua"
local device = require "spec.support.device"
local table_of = require "spec.support.table"
local F <const> = torch.nn.functional
local rows <const> = table_of.rows()

-- A GPU does not support complex tensors yet, so examples that take or return complex tensors do not run there.
local has_complex <const> = device.name ~= "cuda"
local gives_complex <const> = {
   complex = true, polar = true, view_as_complex = true, cfloat = true, cdouble = true, chalf = true, eig = true,
   eigvals = true,
}
for _, row in ipairs(has_complex and {} or rows) do
   local kept = {}
   for _, text in ipairs(row.examples) do
      local complex = gives_complex[row.name] or row.path:find "%.fft%.[ir]*h?fft" or text:find "Z%("
      if not complex then kept[#kept + 1] = text end
   end
   row.examples = kept
end

-- Returns values that the test passes in place of the tensor x. Each value is wrong for some arguments.
local function wrong_tensors(x)
   local function ones(...) return torch.ones({...}, {dtype = x.dtype}) end
   return {
      ones(7, 11), ones(7, 11, 13, 2, 3), ones(), ones(0), ones(3, 0, 2), torch.tensor {99, 0, -7},
      x:detach():to("int64"), x:detach():ne(0), x:detach():to("float16"),
      x:detach():to(has_complex and "complex64" or "float64"), "x", {}, 7.5,
   }
end

local wrong = {}

function wrong.number() return {99, -99, 0, -1, 1.5, "x", {}, {1, 1, 1, 1, 1, 1, 1}} end
function wrong.string() return {"nonsense", 3, {}, torch.ones(2)} end
function wrong.boolean() return {"x", 3} end

local function wrong_values(value)
   if torch.is_tensor(value) then return wrong_tensors(value) end
   return wrong[type(value)] and wrong[type(value)](value) or {}
end

function wrong.table(value)
   local list = {{}, {99}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {-1, -1}, {0, 0}, "x", {"x"}}
   for key, item in pairs(value) do
      for _, other in ipairs(wrong_values(item)) do
         local copy = {}
         for k, v in pairs(value) do copy[k] = v end
         copy[key] = other
         list[#list + 1] = copy
      end
   end
   return list
end

-- Returns the names in front of an error's text: for "file:12: torch.op: argument: text", {"op", "argument"}.
local function heads_of(message)
   local heads, rest = {}, message:gsub("^.-:%d+: ", ""):gsub("^torch%.", "")
   while true do
      local head, after = rest:match("^([%a_][%w_.]*): (.*)$")
      if not head then return heads end
      heads[#heads + 1], rest = head, after
   end
end

-- x[...] and index_put share their messages about indices.
local shared <const> = {index_put = {index = true}}

-- Returns the parameters of all overloads of an operator.
local function params_of(path)
   local known = {}
   for _, row in ipairs(rows) do
      if row.path == path then
         for _, param in ipairs(row.params) do known[param[1]] = true end
      end
   end
   return known
end

-- Checks the names in a message. Returns a description of a wrong name, or nil.
local function fault_in(row, message)
   local heads = heads_of(message)
   local name = row.path:gsub("^torch%.", "")
   local function bare(text) return (text:match("[%w_]+$"):gsub("_$", "")) end
   if not heads[1] or bare(heads[1]) ~= bare(name) then return "does not begin with " .. name end
   if #heads == 1 then return end
   local known, brackets = params_of(row.path), shared[bare(name)] or {}
   for i = 2, #heads do
      if not known[heads[i]] and not brackets[heads[i]] then return heads[i] .. " is no argument" end
   end
end

-- Returns the position of the first argument that the test may replace by a wrong one. The first argument of a method
-- must be right, because it determines which function is called.
local function first_of(row) return row.func and 1 or 2 end

local function check(row, text, faults)
   local args = table_of.arguments(text)
   local errors = 0
   for i = first_of(row), args.n do
      for _, value in ipairs(wrong_values(args[i])) do
         local given = table.pack(table.unpack(args, 1, args.n))
         given[i] = value
         local ok, message = pcall(table_of.call, row, given)
         local late = device.fault()
         if late then ok, message = false, late end
         local fault = not ok and fault_in(row, message)
         errors = errors + (ok and 0 or 1)
         if fault then
            faults[#faults + 1] = ("%s(%s), argument %d: %s: %s"):format(row.path, text, i, fault, message)
         end
      end
   end
   return errors
end

describe("errors about wrong arguments", function()
   it("name the operator that was called and its arguments", function()
      local faults, errors = {}, 0
      for _, row in ipairs(rows) do
         for _, text in ipairs(row.examples) do errors = errors + check(row, text, faults) end
      end
      assert.equal("", table.concat(faults, "\n"))
      assert.is_true(errors > 10000)
   end)

   it("count dimensions and positions from 1", function()
      local x = torch.ones(2, 3)
      assert.raises("logsumexp:", "dimension 4 is out of range", function() x:logsumexp(4) end)
      assert.raises("embedding: input: position 9", "expected 1 to 5",
         function() F.embedding(torch.tensor {9}, torch.ones(5, 2)) end)
      assert.raises("multi_margin_loss: target: position 4", "expected 1 to 3",
         function() F.multi_margin_loss(x, torch.tensor {1, 4}) end)
      assert.raises("take_along_dim: indices: position 4", "expected 1 to 3",
         function() x:take_along_dim(torch.tensor {{4}, {1}}, 2) end)
   end)
end)

it("embedding_bag needs a bag for its positions", function()
   assert.raises("embedding_bag: offsets", "a bag for 2 positions",
      function() F.embedding_bag(torch.tensor {1, 2}, torch.ones(3, 2), torch.tensor({}, {dtype = "int64"})) end)
end)

describe("grad_fn", function()
   local x = torch.ones(2, 3, {requires_grad = true})
   local image = torch.ones(1, 2, 4, 4, {requires_grad = true})
   local square = torch.eye(3):requires_grad_()
   local labels = torch.tensor {1, 2}

   -- PyTorch 1.13 prints these names of nodes for the same calls.
   local nodes = {
      {"AddBackward0", function() return x + x end},
      {"DivBackward0", function() return x / 2 end},
      {"PowBackward0", function() return x:square() end},
      {"WhereBackward0", function() return torch.where(x:gt(0), x, x) end},
      {"MaskedFillBackward0", function() return x:masked_fill(x:gt(0), 0) end},
      {"MmBackward0", function() return x:mm(x:t()) end},
      {"SliceBackward0", function() return x[{{1, 2}}] end},
      {"SelectBackward0", function() return x[1] end},
      {"IndexBackward0", function() return x[{torch.tensor {1, 1}}] end},
      {"ToCopyBackward0", function() return x:double() end},
      {"CloneBackward0", function() return x:t():contiguous() end},
      {"VarBackward0", function() return x:var() end},
      {"SumBackward0", function() return x:sum() end},
      {"SoftmaxBackward0", function() return F.softmax(x, 1) end},
      {"LogSoftmaxBackward0", function() return F.log_softmax(x, 1) end},
      {"NllLossBackward0", function() return F.nll_loss(x, labels, nil, -100, "none") end},
      {"GeluBackward0", function() return F.gelu(x) end},
      {"LogSigmoidBackward0", function() return F.logsigmoid(x) end},
      {"HardtanhBackward0", function() return F.relu6(x) end},
      {"EluBackward0", function() return F.selu(x) end},
      {"EmbeddingBackward0", function() return F.embedding(labels, x) end},
      {"AddmmBackward0", function() return F.linear(x, square, torch.ones(3)) end},
      {"ConvolutionBackward0", function() return F.conv2d(image, torch.ones(1, 2, 3, 3)) end},
      {"ConstantPadNdBackward0", function() return F.pad(image, {1, 1}) end},
      {"Col2ImBackward0", function() return F.fold(torch.ones(1, 4, 4, {requires_grad = true}), {3, 3}, {2, 2}) end},
      {"NativeBatchNormBackward0", function() return F.batch_norm(image, nil, nil, nil, nil, true) end},
      {"NativeLayerNormBackward0", function() return F.layer_norm(x, 3) end},
      {"NativeGroupNormBackward0", function() return F.group_norm(image, 2) end},
      {"LinalgInvExBackward0", function() return torch.linalg.inv(square) end},
      {"LinalgDetBackward0", function() return torch.linalg.det(square) end},
      {"LinalgQrBackward0", function() return (torch.linalg.qr(square)) end},
      {"LinalgVectorNormBackward0", function() return torch.linalg.vector_norm(x) end},
   }
   for _, node in ipairs(nodes) do
      local name, fn = table.unpack(node)
      it("is " .. name, function()
         assert.equal("<" .. name .. ">", tostring(fn().grad_fn))
         assert.matches("grad_fn=<" .. name .. ">", tostring(fn()), 1, true)
      end)
   end

   it("has the name of an operator that users know", function()
      -- Messages may also have these names: "index" for x[...], "convolution" for conv1d to conv_transpose3d, and
      -- "orthogonal_polynomial" for the polynomials in torch.special.
      local known = {index = true, convolution = true, orthogonal_polynomial = true}
      for _, row in ipairs(rows) do
         known[row.name] = true
         known[row.name:gsub("%dd$", "")] = true
      end
      local unknown = {}
      for _, row in ipairs(rows) do
         for _, text in ipairs(row.examples) do
            for _, result in ipairs(table_of.tensors(table_of.call(row, table_of.arguments(text)))) do
               local name = result.grad_fn and result.grad_fn.name
               if name and not known[name] then unknown[name] = row.path end
            end
         end
      end
      assert.same({}, unknown)
   end)
end)
