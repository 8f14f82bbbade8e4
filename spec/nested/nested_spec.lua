-- Tests torch.nested: constructors, shapes, views, holes and errors. The expected values are PyTorch 2.15's, with
-- positions changed to count from 1.

local torch = require "tlua"
local shell = require "spec.support.shell"
local N, F, nn = torch.nested, torch.nn.functional, torch.nn

local nan <const>, inf <const> = 0 / 0, math.huge

-- Returns a nested tensor whose sequences have 2, 0 and 1 rows.
local function sample(options)
   return N.nested_tensor({torch.arange(6.0):view(2, 3), torch.zeros(0, 3), torch.arange(3.0):view(1, 3) + 10}, options)
end

-- Returns a nested tensor whose sequences have 2, 0 and 5 rows, with unused rows between them.
local function holes()
   return N.nested_tensor_from_jagged(torch.arange(20.0):view(10, 2), torch.tensor {1, 4, 4, 11},
      torch.tensor {2, 0, 5})
end

describe("torch.nested", function()
   it("makes nested tensors from lists", function()
      local x = sample {layout = torch.jagged}
      assert.same({3, x:size(2), 3}, {table.unpack(x.shape)})
      assert.matches("^j%d+$", x:size(-2))
      assert.same({1, 3, 3, 4}, x:offsets():tolist())
      assert.is_nil(x:lengths())
      assert.is_true(x.is_nested and torch.is_tensor(x) and x:is_contiguous())
      assert.is_false(torch.zeros(2).is_nested)
      assert.equal("jagged", x.layout)
      assert.same({3, 9, 3, "float32"}, {x:dim(), x:numel(), #x, x.dtype})
      assert.equal(("NestedTensor(size=(3, %s, 3), offsets=tensor([1, 3, 3, 4]), contiguous=True)"):format(x:size(2)),
         tostring(x))
      assert.equal(("torch.Size([3, %s, 3])"):format(x:size(2)), tostring(x.shape))
      assert.matches("requires_grad=True, contiguous=True%)$", tostring(sample {requires_grad = true}))
      assert.matches("grad_fn=<MulBackward0>", tostring(sample {requires_grad = true} * 2))
      assert.equal("float64", sample({dtype = "float64"}).dtype)
      local y = N.nested_tensor {{{1, 2}, {3, 4}}, {{5, 6}}}
      assert.same({{{1, 2}, {3, 4}}, {{5, 6}}}, y:tolist())
      assert.equal("int64", y.dtype)
      local second = N.nested_tensor {torch.zeros(2, 3), torch.zeros(2, 4)}
      assert.same({2, 2, second:size(3)}, {table.unpack(second.shape)})
      local even = N.as_nested_tensor(torch.arange(24.0):view(2, 3, 4))
      assert.same({1, 4, 7}, even:offsets():tolist())
      assert.is_true(rawequal(even, N.as_nested_tensor(even)))
      assert.equal("float16", N.as_nested_tensor(even, {dtype = "float16"}).dtype)
   end)

   it("gives ragged sizes of the same lengths the same name", function()
      local x, y = sample(), sample()
      assert.equal(x:size(2), y:size(2))
      assert.close({{0, 2, 4}, {6, 8, 10}, {20, 22, 24}}, (x + y):values(), 0)
      assert.not_equal(x:size(2), N.as_nested_tensor(torch.zeros(3, 2, 3)):size(2))
   end)

   it("passes gradients to the tensors of a list", function()
      local a, b = torch.ones(3):requires_grad_(), torch.ones(5):requires_grad_()
      local x = N.as_nested_tensor {a, b}
      assert.is_false(x.is_leaf)
      x:backward(N.nested_tensor_from_jagged(torch.cat {torch.ones(3), torch.zeros(5)}, x:offsets()))
      assert.close({1, 1, 1}, a.grad, 0)
      assert.close({0, 0, 0, 0, 0}, b.grad, 0)
      local leaf = sample {requires_grad = true}
      assert.is_true(leaf.is_leaf)
      ;(leaf * leaf):sum():backward()
      assert.close({{0, 2, 4}, {6, 8, 10}, {20, 22, 24}}, leaf.grad:values(), 0)
      leaf.grad = nil
      local grad = torch.autograd.grad(leaf:exp():sum(), leaf)
      assert.close(leaf:values():exp(), grad:values(), 0)
      leaf:unbind()[3]:sum():backward()
      assert.close({{0, 0, 0}, {0, 0, 0}, {1, 1, 1}}, leaf.grad:values(), 0)
   end)

   it("makes views of values", function()
      local values = torch.arange(10.0):view(5, 2)
      local x = N.nested_tensor_from_jagged(values, torch.tensor {1, 3, 6})
      values:zero_()
      assert.close(0, x:sum(), 0)
      assert.same({1, 3, 6}, N.nested_tensor_from_jagged(values, {lengths = torch.tensor {2, 3}}):offsets():tolist())
      local t = N.nested_tensor_from_jagged(values:t(), torch.tensor({1, 6}, {dtype = "int32"}), {jagged_dim = 3})
      assert.same({1, 2, t:size(3)}, {table.unpack(t.shape)})
      assert.equal(0, #N.nested_tensor_from_jagged(torch.zeros(0, 2), torch.tensor {1}))
   end)

   it("narrows and selects", function()
      local base = torch.arange(12.0):view(3, 4)
      local x = N.narrow(base, 2, torch.tensor {1, 2, 1}, torch.tensor {2, 3, 4})
      assert.same({{0, 1}, {5, 6, 7}, {8, 9, 10, 11}}, x:tolist())
      assert.same({1, 6, 9, 13}, x:offsets():tolist())
      assert.same({2, 3, 4}, x:lengths():tolist())
      assert.is_false(x:is_contiguous())
      assert.same({{1, 2}, {5, 6}, {9, 10}}, N.narrow(base, 2, 2, 2):tolist())
      assert.same({{0, 2}, {3, 5}}, N.masked_select(base:view(-1):narrow(1, 1, 6):view(2, 3),
         torch.tensor {true, false, true}):tolist())
      local last = torch.tensor {{false, false}, {false, true}}
      assert.same({{}, {4}}, N.masked_select(torch.tensor {{1, 2}, {3, 4}}, last):tolist())
      local sums = sample():sum(3)
      assert.same({{12}, {}, {33}}, sums:masked_select(sums:gt(4)):tolist())
   end)

   it("pads", function()
      local x = sample()
      assert.close({{{0, 1, 2}, {3, 4, 5}}, {{-1, -1, -1}, {-1, -1, -1}}, {{10, 11, 12}, {-1, -1, -1}}},
         x:to_padded_tensor(-1), 0)
      assert.same({4, 4, 4}, {table.unpack(N.to_padded_tensor(x, 0, {4, 4, 4}).shape)})
      assert.close(48, N.to_padded_tensor(x, 0, {4, 4, 4}):sum(), 0)
      assert.raises("nested.to_padded_tensor: output_size: expected at least (3, 2, 3), got (3, 1, 3)",
         function() x:to_padded_tensor(0, {3, 1, 3}) end)
      assert.raises("nested.to_padded_tensor: input: expected a nested tensor",
         function() N.to_padded_tensor(torch.zeros(2), 0) end)
   end)

   it("indexes, splits and joins", function()
      local x = sample()
      assert.close({{0, 1, 2}, {3, 4, 5}}, x[1], 0)
      assert.close({3, 4, 5}, x[{1, 2}], 0)
      assert.close({0, 3, 10}, x[{{}, {}, 1}]:values(), 0)
      assert.close({{1, 2}, {4, 5}, {11, 12}}, x[{{}, {}, {2, 3}}]:values(), 0)
      assert.same({{}, {{10, 11, 12}}}, x[{{2, 3}}]:tolist())
      assert.same({1, 1, 2}, x:narrow(1, 2, 2):offsets():tolist())
      assert.same({2, 1}, {#x:chunk(2)[1], #x:chunk(2)[2]})
      assert.close({{2}, {5}, {12}}, x:split({2, 1}, 3)[2]:values(), 0)
      assert.close({2, 5, 12}, x:unbind(3)[3]:values(), 0)
      assert.same({{{0, 1, 2}, {3, 4, 5}}, {}, {{10, 11, 12}}, {{0, 1, 2}, {3, 4, 5}}, {}, {{10, 11, 12}}},
         torch.cat({x, x}):tolist())
      assert.raises("index: item 2: expected {}, as the dimension is ragged", function() return x[{{}, 1}] end)
      assert.raises("index: item 1: expected a position from 1 to 3", function() return x[4] end)
      assert.raises("cat: is not defined along the ragged dimension, 2", function() torch.cat({x, x}, 2) end)
      assert.raises("cat: tensors[2]: expected a nested tensor", function() torch.cat {x, torch.zeros(3)} end)
      assert.raises("stack: dim: is not defined along dimension 1", function() torch.stack {x, x} end)
   end)

   it("changes shapes without moving elements past the ragged dimension", function()
      local x = sample()
      local q = x:unflatten(-1, {3, 1}):transpose(2, 3)
      assert.same({3, 3, x:size(2), 1}, {table.unpack(q.shape)})
      assert.same({3, 3, 1}, {table.unpack(q:values().shape)})
      assert.is_true(torch.equal(x, q:transpose(2, 3):flatten(3)))
      assert.is_true(torch.equal(x, x:permute(1, 3, 2):permute {1, 3, 2}))
      assert.is_true(torch.equal(x, x:unsqueeze(2):squeeze(2)))
      assert.is_true(torch.equal(x, x:view(3, x:size(2), 3, 1):reshape(3, -1, 3)))
      for _, sizes in ipairs {{3, 3, -1}, {3, -1}, {-1, 3}, {9, 3}, {3, 3, x:size(2)}, {3, -1, 2}} do
         assert.raises("view: sizes:", function() x:view(sizes) end)
      end
      assert.raises("transpose: dim0: is not defined along dimension 1, the batch", function() x:transpose(1, 2) end)
      assert.raises("flatten: is not defined along the ragged dimension, 2", function() x:flatten(2) end)
      assert.raises("unsqueeze: dim: expected 1 to 4", function() x:unsqueeze(5) end)
   end)

   it("broadcasts dense tensors", function()
      local x = sample()
      assert.close({{1, 2, 3}, {4, 5, 6}, {13, 14, 15}}, (x + torch.tensor {{{1}}, {{2}}, {{3}}}):values(), 0)
      assert.close(x:values() + 1, (x + torch.ones(3, 2, 3)):values(), 0)
      assert.close(x:values() * 2, (torch.full({1, 1, 3}, 2) * x):values(), 0)
      local q = x:transpose(2, 3)
      assert.close({{1, 4, 13}, {2, 5, 14}, {3, 6, 15}}, (q + torch.tensor {{{1}}, {{2}}, {{3}}}):values(), 0)
      assert.raises("add: shape (9, 3) does not broadcast to the shape (3, " .. x:size(2) .. ", 3) of a nested tensor",
         function() return x + torch.ones(9, 3) end)
      assert.raises("add: shape (2) does not broadcast",
         function() return N.nested_tensor {{1, 2}} + torch.ones(2) end)
      assert.close({3, 4}, (N.nested_tensor {{1, 2}} + torch.full({1, 2}, 2)):values(), 0)
      assert.raises("add: expected nested tensors of the same raggedness",
         function() return x + N.as_nested_tensor(torch.zeros(3, 1, 3)) end)
      assert.raises("add_: a dense tensor cannot take a nested result", function() torch.zeros(3, 2, 3):add_(x) end)
      local y = x:clone()
      y:add_(1):mul_(y)
      assert.close((x:values() + 1):square(), y:values(), 0)
      local each = torch.randn(3, 1, 3, {dtype = "float64"}):requires_grad_()
      local padded = torch.randn(3, 2, 1, {dtype = "float64"}):requires_grad_()
      local z = x:double()
      assert.is_true(torch.autograd.gradcheck(function(a, b) return (z * a / (b + 5)):values() end, {each, padded}))
      assert.close({{1, 1, 2}, {3, 3, 3}, {3, 3, 3}}, torch.clamp(x, {min = 1, max = 3}):values(), 0)
   end)

   it("reduces along the ragged dimension, also without rows", function()
      local x = sample()
      assert.close({{1.5, 2.5, 3.5}, {nan, nan, nan}, {10, 11, 12}}, x:mean(2), 0)
      assert.same({{false, true, true}, {true, true, true}, {true, true, true}}, x:all(2):tolist())
      assert.same({false, true, true}, x:all({2, 3}):tolist())
      assert.same({{{3}}, {{0}}, {{10}}}, x[{{}, {}, {1, 1}}]:sum(2, {keepdim = true, dtype = "int64"}):tolist())
      assert.equal("float64", x:half():softmax(2, "float64").dtype)
      assert.equal("float32", x.dtype)
      assert.same({{true, true, true}, {false, false, false}, {true, true, true}}, x:any(2):tolist())
      local least <const> = torch.finfo("float32").min
      assert.close({least, least, least}, x:amax(2)[2], 0)
      assert.equal(-2147483648, x:int():amax(2)[{2, 1}]:item())
      assert.close({15, 0, 33}, x:sum {2, 3}, 0)
      assert.close({2.5, nan, 11}, x:mean {2, 3}, 0)
      assert.equal("int64", x:int():sum(2).dtype)
      assert.equal("float64", x:sum(2, {dtype = "float64"}).dtype)
      local values, positions = x[{{3, 3}}]:max(2)
      assert.close({{10, 11, 12}}, values, 0)
      assert.same({{1, 1, 1}}, positions:tolist())
      local y = N.nested_tensor {torch.tensor {1.0, nan, 3}, torch.tensor {-inf, -inf}}
      assert.close({nan, -inf}, y:amax(2), 0)
      assert.close({nan, nan, nan, nan, nan}, y:softmax(2):values(), 0)
      assert.raises("max: sequence 2 is empty", function() x:max(2) end)
      assert.raises("sum: dim: is defined along dimension 1, the batch, only together with", function() x:sum(1) end)
      assert.raises("median: dim: is not defined along the ragged dimension, 2", function() x:median(2) end)
      assert.raises("var: dim: is not defined along the ragged dimension, 2", function() x:var {2, 3} end)
      assert.raises("std: input: expected a floating or complex dtype", function() x:int():std(2) end)
      assert.raises("sum: unknown option nonsense", function() x:sum(2, {nonsense = 1}) end)
      assert.raises("sum: keepdim: expected true or false", function() x:sum(2, "yes") end)
      assert.raises("sum: dim: dimension 2 is given twice", function() x:sum {2, -2} end)
      assert.raises("amax: input: expected a tensor of real numbers", function() x:to("complex64"):amax(2) end)
      assert.same({{true, true, true}, {false, false, false}, {true, true, true}}, x:bool():amax(2):tolist())
      assert.raises("to_padded_tensor: padding: expected an integer", function() x:int():to_padded_tensor(0.5) end)
      assert.raises("softmax: dim: is not defined along the dimension of the batch", function() x:softmax(1) end)
   end)

   it("computes softmax alike with and without padding", function()
      local values = torch.randn(3, 6, {dtype = "float64"})
      local even = N.nested_tensor_from_jagged(values, torch.tensor {1, 3, 7}, {jagged_dim = 3})
      local odd = N.nested_tensor_from_jagged(values, torch.tensor {1, 3, 3, 3, 3, 3, 3, 7}, {jagged_dim = 3})
      for _, name in ipairs {"softmax", "log_softmax"} do
         local expected = torch.cat({values:narrow(2, 1, 2)[name](values:narrow(2, 1, 2), 2),
            values:narrow(2, 3, 4)[name](values:narrow(2, 3, 4), 2)}, 2)
         assert.close(expected, even[name](even, 3):values(), 1e-12)
         assert.close(expected, odd[name](odd, 3):values(), 1e-12)
      end
      assert.is_true(torch.autograd.gradgradcheck(function(v)
         return N.nested_tensor_from_jagged(v, torch.tensor {1, 3, 7}, {jagged_dim = 3}):softmax(3):values()
      end, {values:requires_grad_()}))
   end)

   it("computes deviations and cumulative results for each sequence along the ragged dimension", function()
      local list = {torch.randn(3, 2, {dtype = "float64"}), torch.randn(1, 2):double(), torch.randn(0, 2):double(),
         torch.randn(5, 2):double()}
      local plain = N.nested_tensor(list)
      local gaps = N.nested_tensor_from_jagged(torch.cat({list[1], torch.full({2, 2}, 1e9), list[2], list[4]}, 1),
         torch.tensor {1, 6, 7, 7, 12}, torch.tensor {3, 1, 0, 5})
      for _, x in ipairs {plain, gaps} do
         for _, name in ipairs {"std", "var"} do
            for _, rest in ipairs {{}, {{unbiased = false}}, {{correction = 2}}, {true}, {false, true},
               {{keepdim = true}}} do
               local result = x[name](x, 2, table.unpack(rest))
               for i, sequence in ipairs(list) do
                  assert.close(sequence[name](sequence, 1, table.unpack(rest)), result[i], 1e-12)
               end
            end
         end
         for _, name in ipairs {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"} do
            local results = table.pack(x[name](x, 2))
            for i, sequence in ipairs(list) do
               for k, expected in ipairs {sequence[name](sequence, 1)} do assert.close(expected, results[k][i], 0) end
            end
         end
      end
      assert.same({{1, 1, 2}, {0}}, N.nested_tensor({{1, 0, 2}, {0}}):bool():cumsum(2):tolist())
      assert.equal("float16", plain:half():std(2).dtype)
      assert.is_true(torch.autograd.gradcheck(function(v)
         return v:std(2), v:cumsum(2), v:var(2, {correction = 0})
      end, {N.nested_tensor({list[1], list[4]}):requires_grad_()}))
   end)

   it("computes losses of nested tensors from rows inside sequences only", function()
      local a, b = torch.rand(7, 2, {dtype = "float64"}), torch.rand(7, 2, {dtype = "float64"})
      local offsets, lengths = torch.tensor {1, 4, 4, 8}, torch.tensor {2, 0, 3}
      local x = N.nested_tensor_from_jagged(a, offsets, lengths)
      local y = N.nested_tensor_from_jagged(b, offsets, lengths)
      local rows = torch.tensor {1, 2, 4, 5, 6}
      local p, q = a:index_select(1, rows), b:index_select(1, rows)
      for _, name in ipairs {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
         "binary_cross_entropy_with_logits", "soft_margin_loss", "poisson_nll_loss"} do
         for _, reduction in ipairs {"mean", "sum", "none"} do
            local got = F[name](x, y, {reduction = reduction})
            assert.close(F[name](p, q, {reduction = reduction}), got.is_nested and got:values() or got, 1e-12)
         end
         assert.raises(name .. ": expected input and target both nested, got a float64 nested tensor of shape (3, j",
            function() F[name](x, p) end)
      end
      assert.close(F.binary_cross_entropy(p, q, {weight = p}), F.binary_cross_entropy(x, y, {weight = x}), 1e-12)
      assert.close(F.mse_loss(p, q), nn.MSELoss()(x, y), 1e-12)
      assert.raises("mse_loss: expected nested tensors of the same raggedness",
         function() F.mse_loss(x, N.nested_tensor {a}) end)
   end)

   it("computes cross entropy and divergence of rows inside sequences only", function()
      local a = torch.randn(7, 4, {dtype = "float64"}):requires_grad_()
      local offsets, lengths = torch.tensor {1, 4, 4, 8}, torch.tensor {2, 0, 3}
      local x = N.nested_tensor_from_jagged(a, offsets, lengths)
      local labels = torch.tensor {1, 3, 2, 4, 1, 2, 2}
      local t = N.nested_tensor_from_jagged(labels, offsets, lengths)
      local rows = torch.tensor {1, 2, 4, 5, 6}
      local p, goals = a:index_select(1, rows), labels:index_select(1, rows)
      local weight = torch.rand(4, {dtype = "float64"})
      for _, reduction in ipairs {"mean", "sum", "none"} do
         local options = {weight = weight, reduction = reduction, ignore_index = 2, label_smoothing = 0.1}
         local expected = F.cross_entropy(p, goals, options)
         for _, input in ipairs {x, x:contiguous():transpose(2, 3)} do
            local got = F.cross_entropy(input, t, options)
            assert.close(expected, got.is_nested and got:values() or got, 1e-12)
         end
         local got = F.nll_loss(x:log_softmax(-1), t, {reduction = reduction})
         assert.close(F.nll_loss(p:log_softmax(-1), goals, {reduction = reduction}),
            got.is_nested and got:values() or got, 1e-12)
      end
      local soft = N.nested_tensor_from_jagged(torch.rand(7, 4, {dtype = "float64"}):softmax(-1), offsets, lengths)
      local q = soft:values():index_select(1, rows)
      assert.close(F.cross_entropy(p, q), F.cross_entropy(x, soft), 1e-12)
      assert.close(F.cross_entropy(p, goals), nn.CrossEntropyLoss()(x, t), 1e-12)
      for reduction, divisor in pairs {sum = 1, mean = 20, batchmean = 3} do -- 3 sequences
         local got = F.kl_div(x:log_softmax(-1), soft, {reduction = reduction})
         assert.close(F.kl_div(p:log_softmax(-1), q, {reduction = "sum"}) / divisor, got, 1e-12)
      end
      F.cross_entropy(x, t):backward()
      local grad = torch.autograd.grad(F.cross_entropy(p, goals), {a})
      assert.close(grad, a.grad, 1e-12)
      assert.raises("cross_entropy: target: expected the lengths of input, (3, j", function()
         F.cross_entropy(x, N.nested_tensor {torch.tensor {1}, torch.tensor {1}})
      end)
      assert.raises("cross_entropy: expected input and target both nested", function() F.cross_entropy(x, goals) end)
      assert.raises("func.vmap: argument 1: expected a dense tensor, got a nested one", function()
         torch.func.vmap(function(y) return y * 2 end)(x)
      end)
   end)

   it("are in PyTorch's files (fixtures/nested_file.py)", function()
      local function plain(x) return x:detach():cpu():tolist() end
      local read = torch.load "spec/fixtures/nested_file.pt"
      assert.same({{1, 1, 1, 1}, {2, 2, 2, 2}}, {plain(read.a:values())[2], plain(read.a:values())[3]})
      assert.same({1, 3, 6}, plain(read.a:offsets()))
      assert.same({true, false}, {read.a.requires_grad, read.b.requires_grad})
      assert.same({{1, 4, 4, 8}, {2, 0, 3}}, {plain(read.b:offsets()), plain(read.b:lengths())})
      assert.same({2, 4}, {read.c:size(1), read.c:size(2)})
      local x = sample {dtype = "float64"}
      shell.with_folder(function(folder)
         local path = folder .. "/x.pt"
         torch.save({x = x, rows = x:values(), w = nn.Parameter(x:detach()), old = read}, path)
         local again = torch.load(path)
         assert.raises('a nested tensor, the offsets of which map_location = "meta" does not read',
            function() torch.load(path, {map_location = "meta"}) end)
         assert.is_true(again.w.is_parameter)
         assert.same(plain(x:values()), plain(again.x:values()))
         assert.same(plain(x:offsets()), plain(again.x:offsets()))
         assert.same(plain(read.b:lengths()), plain(again.old.b:lengths()))
         assert.same(plain(read.c:values()), plain(again.old.c:values()))
         local bytes = shell.read(path)
         local at = bytes:find("_ragged_idx", 1, true) + #"_ragged_idx"
         local tail = bytes:find("J\1", at, true)
         shell.write(path, bytes:sub(1, tail) .. "\9" .. bytes:sub(tail + 2))
         assert.is_false(pcall(torch.load, path))
      end)
   end)

   it("may be parameters of modules and of optimizers", function()
      local x = sample {dtype = "float64"}
      local w = nn.Parameter(x)
      assert.same({true, true, false, false}, {w.is_parameter, w.requires_grad, x.is_parameter, (w * 2).is_parameter})
      assert.is_false(nn.Parameter(x, false).requires_grad)
      local m = nn.Module()
      m.w = w
      assert.same({w}, {select(2, m:named_parameters()())})
      local kept = w:values():detach():clone()
      for _, make in ipairs {torch.optim.SGD, torch.optim.AdamW, torch.optim.Rprop, torch.optim.LBFGS} do
         local dense = kept:clone():requires_grad_()
         w:values().data:copy_(kept)
         local one, other = make({w}, {lr = 0.1}), make({dense}, {lr = 0.1})
         for _ = 1, 3 do
            local function loss(of, optimizer)
               return function()
                  optimizer:zero_grad()
                  local value = (of * of):sum()
                  value:backward()
                  return value
               end
            end
            one:step(loss(w, one))
            other:step(loss(dense, other))
         end
         assert.close(dense:detach(), w:values():detach(), 0)
         one:zero_grad()
         assert.is_nil(w.grad)
      end
      local state = m:state_dict()
      assert.is_false(state.w.requires_grad)
      local tripled = x * 3
      m:load_state_dict {w = tripled}
      assert.is_true(tripled:equal(m.w:detach()))
      assert.is_true(m.w:equal(m:clone().w) and m:clone().w.is_parameter)
      m:float()
      assert.same({"float32", true}, {w.dtype, rawequal(w, m.w)})
      assert.raises("not accepted: w: expected a nested tensor, got a float32 tensor of shape (3)",
         function() m:load_state_dict {w = torch.zeros(3)} end)
      assert.raises("of another shape: w: expected shape (3, j", function()
         m:load_state_dict {w = N.nested_tensor {torch.zeros(2, 3)}}
      end)
      assert.raises("data: value: expected a nested tensor of the same shape, got 1", function() w.data = 1 end)
      local mask = torch.masked.masked_tensor(torch.ones(2), torch.tensor {true, false})
      assert.raises("nn.Parameter: data: expected a dense, sparse or nested tensor, got a float32 masked tensor",
         function() nn.Parameter(mask) end)
   end)

   it("may be inputs of gradcheck and gradgradcheck", function()
      local x = N.nested_tensor({torch.rand(2, 2), torch.rand(3, 2)}, {dtype = "float64"}):requires_grad_()
      local y = N.nested_tensor({torch.rand(2, 2), torch.rand(3, 2)}, {dtype = "float64"})
      local function f(a, b) return a * b, (a * a):sum(2), torch.where(b:gt(0.5), a, 0.0) end
      assert.is_true(torch.autograd.gradcheck(f, {x, y}))
      assert.is_true(torch.autograd.gradgradcheck(f, {x, y}))
      assert.raises("gradcheck: output 1, input 1: the derivative of element ",
         function() torch.autograd.gradcheck(function(a) return a * a:detach() end, {x}) end)
   end)

   it("multiplies empty batches, and refuses to pad beyond the memory's size", function()
      local e = N.nested_tensor_from_jagged(torch.zeros(0, 2), torch.tensor {1})
      assert.same({0, 2, 2}, {table.unpack(e:transpose(2, 3):matmul(e).shape)})
      assert.same({0, 2, 4}, {table.unpack(e:transpose(2, 3):bmm(N.nested_tensor_from_jagged(torch.zeros(0, 4),
         torch.tensor {1})).shape)})
      for _, result in ipairs {e:matmul(torch.ones(2, 4)), e:matmul(torch.ones(0, 2, 4)), e:bmm(torch.ones(0, 2, 4))} do
         assert.same({0, 4}, {result:size(1), result:size(3)})
      end
      assert.raises("matmul: is not defined for shapes (0, j", function() e:matmul(e:transpose(2, 3)) end)
      local x = N.nested_tensor {{1, 2, 3}, {4}}
      assert.raises("nested.to_padded_tensor: output_size: expected less than 2^63 bytes in all, got (2, "
         .. math.maxinteger .. ")", function() N.to_padded_tensor(x, 0, {2, math.maxinteger}) end)
      assert.raises("nested.to_padded_tensor: output_size: expected less than 2^63 bytes in all, got (",
         function() N.to_padded_tensor(x, 0, {1 << 61, 4}) end)
      assert.raises("nested.to_padded_tensor: output_size: expected 2 sizes, got (2, 3, 4)",
         function() N.to_padded_tensor(x, 0, {2, 3, 4}) end)
      assert.raises("where: expected condition, self and other, as one of them is nested",
         function() torch.where(x:gt(1)) end)
   end)

   it("sums half types without rounding each step", function()
      for _, dtype in ipairs {"float16", "bfloat16"} do
         local x = N.nested_tensor {torch.ones(3000, {dtype = dtype}), torch.ones(8, {dtype = dtype})}
         assert.close({3000, 8}, x:sum(2):float(), dtype == "bfloat16" and 8 or 0)
         assert.equal(dtype, x:softmax(2).dtype)
         assert.close(torch.full({8}, 1 / 8), x:softmax(2)[2]:float(), 0)
      end
   end)

   it("ignores rows outside the sequences", function()
      local h = holes()
      assert.same({14, false}, {h:numel(), h:is_contiguous()})
      assert.same({{{0, 1}, {2, 3}}, {}, {{6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}}, h:tolist())
      assert.same({1, 3, 3, 8}, h:contiguous():offsets():tolist())
      assert.close(111, h:sum(), 0)
      assert.close(111 / 14, h:mean(), 1e-6)
      assert.close(15, h:max(), 0)
      assert.close({{2, 4}, {0, 0}, {50, 55}}, h:sum(2), 0)
      assert.close({{1, 5}, {13, 17, 21, 25, 29}}, {h:sum(3):unbind()[1], h:sum(3):unbind()[3]}, 0)
      assert.close({{4, 8}, {0, 0}, {100, 110}}, (h * 2):sum(2), 0)
      assert.close(h:contiguous():softmax(2):values(), h:softmax(2):values(), 0)
      assert.close({{6, 8}, {0, 0}, {65, 70}}, (h + torch.tensor {{{2}}, {{0}}, {{3}}}):sum(2), 0)
      assert.same({{}, {{6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}}, h[{{2, 3}}]:tolist())
      assert.close(h:contiguous():to_padded_tensor(0), h:to_padded_tensor(0), 0)
      assert.same(14, torch.cat({h, h}):numel() // 2)
      assert.is_true(torch.equal(h, h:clone()))
      assert.raises("zero_: would change rows outside the sequences", function() h:zero_() end)
      assert.raises("add_: would change rows outside the sequences", function() h:add_(1) end)
      local ids = N.nested_tensor_from_jagged(torch.tensor {1, 99, 2}, torch.tensor {1, 3, 4}, torch.tensor {1, 1})
      assert.close({{1, 0}, {0, 1}}, F.embedding(ids, torch.eye(2)):values(), 0)
   end)

   it("computes attention within each sequence, or to another one", function()
      local q = N.nested_tensor {torch.randn(2, 3, 4), torch.randn(2, 0, 4), torch.randn(2, 5, 4)}
      local k = N.nested_tensor {torch.randn(2, 2, 4), torch.randn(2, 3, 4), torch.randn(2, 0, 4)}
      local y = F.scaled_dot_product_attention(q, k, k)
      for i, s in ipairs(y:unbind()) do
         local dense = k[i]:size(2) > 0 and F.scaled_dot_product_attention(q[i], k[i], k[i]) or torch.zeros_like(s)
         assert.close(dense, s, 1e-5)
      end
      local x = sample()
      assert.raises("scaled_dot_product_attention: query: expected the shape (batch, heads, ragged, size)",
         function() F.scaled_dot_product_attention(q:transpose(2, 3), k, k) end)
      assert.raises("attn_mask: expected nil",
         function() F.scaled_dot_product_attention(x, x, x, {attn_mask = torch.ones(2, 2):bool()}) end)
      assert.raises("value: expected the raggedness of the key",
         function() F.scaled_dot_product_attention(q, k, q) end)
      assert.raises("key: expected the batch of the query, 3, got 2",
         function() F.scaled_dot_product_attention(q, k:narrow(1, 1, 2), k:narrow(1, 1, 2)) end)
      assert.raises("value: expected a nested tensor",
         function() F.scaled_dot_product_attention(q, k, torch.ones(2)) end)
   end)

   it("computes attention of sequences of equal lengths in one step", function()
      for _, heads in ipairs {0, 2} do
         local function batch(lengths)
            local list = {}
            for i, n in ipairs(lengths) do
               list[i] = torch.randn(heads > 0 and {heads, n, 4} or {n, 4}, {dtype = "float64"})
            end
            return list
         end
         local q, k = batch {3, 1, 3, 0, 3, 1, 0, 2}, batch {2, 5, 2, 0, 2, 5, 0, 0}
         local function attend(v, ...)
            local key = N.as_nested_tensor {...}
            local query = N.nested_tensor_from_jagged(v, N.as_nested_tensor(q):offsets(),
               {jagged_dim = heads > 0 and 3 or 2})
            return F.scaled_dot_product_attention(query, key, key * 2, {is_causal = true})
         end
         local flat = N.as_nested_tensor(q):values()
         local y = attend(flat, table.unpack(k))
         for i, s in ipairs(y:unbind()) do
            assert.close(F.scaled_dot_product_attention(q[i], k[i], k[i] * 2, {is_causal = true}), s, 1e-12)
         end
         flat:requires_grad_()
         k[1]:requires_grad_()
         assert.is_true(torch.autograd.gradcheck(function(v, first)
            return attend(v, first, table.unpack(k, 2)):values()
         end, {flat, k[1]}))
      end
   end)

   it("passes through modules", function()
      local x = sample()
      local function shape(m, ...) return table.concat(m(...).shape, " ") end
      local same = table.concat(x.shape, " ")
      for _, m in ipairs {nn.Linear(3, 3), nn.LayerNorm(3), nn.RMSNorm(3), nn.ReLU(), nn.GELU(), nn.Dropout(0.5),
         nn.Softmax(-1), nn.Identity(), nn.PReLU(), nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)),
         nn.TransformerEncoderLayer(3, 1, 8, {batch_first = true}),
         nn.TransformerEncoder(nn.TransformerEncoderLayer(3, 1, 8, {batch_first = true, norm_first = true}), 2)} do
         assert.equal(same, shape(m, x))
         m:zero_grad()
         local leaf = sample {requires_grad = true}
         m(leaf):sum():backward()
         assert.same({3, 3}, {table.unpack(leaf.grad:values().shape)})
      end
      assert.equal("2 " .. N.nested_tensor({{1, 2}, {3}}):size(2) .. " 4",
         shape(nn.Embedding(5, 4), N.nested_tensor {{1, 2}, {3}}))
      local attention = nn.MultiheadAttention(3, 1, {batch_first = true})
      assert.raises("nn.MultiheadAttention: need_weights: expected false for nested tensors",
         function() attention(x, x, x) end)
      assert.raises("nn.MultiheadAttention: batch_first: expected true for nested tensors",
         function() nn.MultiheadAttention(3, 1)(x, x, x, {need_weights = false}) end)
      assert.raises("conv1d: input: expected the shape (batch, ragged, channels, size), got (3, j1, 3)",
         function() nn.Conv1d(3, 2, 1)(x) end)
   end)

   it("refuses lists, offsets and lengths that do not fit", function()
      local function refuses(message, fn, ...)
         local given = table.pack(...)
         assert.raises(message, function() fn(table.unpack(given, 1, given.n)) end)
      end
      local zeros, of = torch.zeros, N.nested_tensor_from_jagged
      refuses("nested.nested_tensor: tensor_list: expected at least one tensor", N.nested_tensor, {})
      refuses("nested.nested_tensor: tensor_list[2]: expected a tensor, got nil", N.nested_tensor,
         {zeros(2), nil, zeros(3)})
      refuses("nested.nested_tensor: tensor_list[1]: has no dimensions", N.nested_tensor, {1, 2})
      refuses("nested.nested_tensor: tensor_list[2]: sizes may differ in one dimension", N.nested_tensor,
         {zeros(2, 3, 4), zeros(2, 4, 3)})
      refuses("nested.nested_tensor: tensor_list[2]: expected the dtype of the first tensor, int32, got float32",
         N.nested_tensor, {zeros(2):int(), zeros(1)})
      refuses("nested.nested_tensor: tensor_list[2]: expected the number of dimensions", N.nested_tensor,
         {zeros(2), zeros(1, 1)})
      refuses("nested.nested_tensor: tensor_list[1]: expected a dense tensor", N.nested_tensor, {sample()})
      refuses('nested.nested_tensor: layout: expected "jagged"', N.nested_tensor, {zeros(2)}, {layout = torch.strided})
      refuses("nested.as_nested_tensor: ts[1]: expected a tensor, got a table", N.as_nested_tensor, {{1, 2}})
      refuses("nested.as_nested_tensor: ts: expected a tensor of at least 2 dimensions", N.as_nested_tensor, zeros(3))
      refuses("offsets[1]: expected 1, the first row, got 0", of, zeros(4), torch.tensor {0, 4})
      refuses("offsets[2]: expected 5, one past the last row of the values, got 3", of, zeros(4), torch.tensor {1, 3})
      refuses("offsets[3]: expected at least 4, got 3", of, zeros(4), torch.tensor {1, 4, 3, 5})
      refuses("offsets[2]: expected at most 5", of, zeros(4), torch.tensor {1, 9})
      refuses("lengths[1]: expected at most 2, the distance to the next offset, got 3", of, zeros(4),
         torch.tensor {1, 3, 5}, torch.tensor {3, 1})
      refuses("lengths[2]: expected 0 to 4, got -1", of, zeros(4), torch.tensor {1, 3, 5}, torch.tensor {1, -1})
      refuses("lengths: expected 2, one fewer than offsets", of, zeros(4), torch.tensor {1, 3, 5}, torch.tensor {1})
      refuses("lengths: expected a sum of 4, the number of rows, got 3", of, zeros(4), nil, torch.tensor {1, 2})
      refuses("lengths[1]: expected 0 to 4, got 9223372036854775807", of, zeros(4), nil,
         torch.tensor {math.maxinteger, math.maxinteger, 6})
      refuses("nested.narrow: element 1: 3 rows from row 9223372036854775807 on are outside 1 to 4", N.narrow,
         zeros(3, 4), 2, math.maxinteger, 3)
      refuses("offsets: expected a tensor of int64 with one dimension", of, zeros(4), torch.tensor {1.0, 5})
      refuses("expected offsets, lengths or both, got neither", of, zeros(4))
      refuses("jagged_dim: dimension 1, the batch, cannot be ragged", of, zeros(4), torch.tensor {1, 5},
         {jagged_dim = 1})
      refuses("max_seqlen: expected at least the largest length, 4, got 3", of, zeros(4), torch.tensor {1, 5},
         {max_seqlen = 3})
      refuses("nested.narrow: element 3: 4 rows from row 4 on are outside 1 to 4", N.narrow, zeros(3, 4), 2,
         torch.tensor {1, 2, 4}, torch.tensor {2, 3, 4})
      refuses("nested.narrow: dim: expected 2, got 3", N.narrow, zeros(3, 4, 2), 3, 1, 2)
      refuses("nested.narrow: start: expected 3, the size of the batch, got 2", N.narrow, zeros(3, 4), 2,
         torch.tensor {1, 2}, 1)
      refuses("nested.masked_select: mask: expected a tensor of bool", N.masked_select, zeros(2), zeros(2))
      refuses("nested.masked_select: mask: shape (3) does not broadcast", N.masked_select, zeros(2), zeros(3):bool())
   end)

   it("raises errors that name the operator", function()
      local x = sample()
      for message, fn in pairs {
         ["view: sizes: ()"] = function() x:view() end,
         ["permute: dims: expected 3 dimensions"] = function() x:permute() end,
         ["index: item 1: expected a position"] = function() return x[{}] end,
         ["matmul: other: expected a tensor, got 2"] = function() x:matmul(2) end,
         ["matmul: other: expected a tensor, got nil"] = function() x:matmul() end,
         ["cat: expected at most 2 arguments, got 3"] = function() torch.cat({x}, 1, 2) end,
         ["transpose: expected at most 3 arguments, got 4"] = function() x:transpose(2, 3, 4) end,
      } do
         assert.raises(message, fn)
      end
      local values = torch.ones(3)
      local y = N.nested_tensor_from_jagged(values, torch.tensor {1, 2, 4})
      values:resize_(1)
      assert.raises("nested tensor: values: expected 3 rows, got 1", function() return y + 1 end)
   end)

   it("takes assignments to sequences, rows and dense dimensions", function()
      local function made() return torch.nested.nested_tensor_from_jagged(torch.zeros(5, 2), torch.tensor {1, 4, 6}) end
      local function check(expected, assign)
         local x = made()
         assign(x)
         assert.same(expected, x:values():flatten():tolist())
      end
      check({0, 0, 0, 0, 0, 0, 3, 3, 3, 3}, function(x) x[2] = 3 end)
      check({0, 0, 1, 2, 0, 0, 0, 0, 0, 0}, function(x) x[{1, 2}] = torch.tensor {1.0, 2} end)
      check({0, 4, 0, 4, 0, 4, 0, 4, 0, 4}, function(x) x[{{}, {}, 2}] = 4 end)
      check({0, 0, 0, 0, 0, 0, 0, 5, 0, 5}, function(x) x[{{2, 2}, {}, 2}] = 5 end)
      check({6, 6, 6, 6, 6, 6, 6, 6, 6, 6}, function(x) x[x:eq(0)] = 6 end)
      check({0, 0, 0, 0, 7, 0, 0, 0, 0, 0},
         function(x) x:index_put_({torch.tensor {1}, torch.tensor {3}, torch.tensor {1}}, torch.tensor(7.0)) end)
      check({0, 0, 0, 0, 0, 0, 8, 8, 8, 8}, function(x) x:index_put_({torch.tensor {2}}, torch.tensor(8.0)) end)
      local x = made()
      for message, fn in pairs {
         ["index: value: expected a number or a dense tensor, got \"a\""] = function() x[1] = "a" end,
         ["index: value: expected a number, as the index is a mask"] = function() x[x:eq(0)] = torch.ones(2) end,
         ["index_put: indices[2]: expected positions in the sequences, from 1 on"] =
            function() x:index_put({torch.tensor {2}, torch.tensor {3}}, torch.tensor(1.0)) end,
         ["index_put: indices[1]: expected positions in the batch, from 1 on"] =
            function() x:index_put({torch.tensor {0}, torch.tensor {1}}, torch.tensor(1.0)) end,
         ["index_put: indices[1]: expected a tensor of integers"] =
            function() x:index_put({torch.ones(1)}, torch.tensor(1.0)) end,
      } do
         assert.raises(message, fn)
      end
      assert.same({0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, x:values():flatten():tolist())
   end)

   it("converts to another tensor's dtype, and compares and expands shapes", function()
      local x = sample()
      assert.equal("float64", x:type_as(torch.ones(1, {dtype = "float64"})).dtype)
      assert.equal("float16", x:to(x:half()).dtype)
      assert.is_true(x:is_same_size(x * 2))
      assert.is_false(x:is_same_size(x:unsqueeze(2)))
      assert.is_true(x:equal(x:view_as(x)))
      assert.is_true(x.mT:equal(x:transpose(-1, -2)))
      assert.raises("movedim: source: is not defined along dimension 1, the batch", function() x:movedim(1, 2) end)
      assert.raises("expand: sizes: (9) do not fit the shape", function() x:expand(9) end)
      assert.raises("conv1d: input: expected the shape (batch, ragged, channels, size), got ",
         function() torch.nn.functional.conv1d(x, torch.ones(1, 1, 1)) end)
   end)

   it("is refused by name where nothing else is defined", function()
      local x = sample()
      assert.raises("save: /nowhere/x.npy: a nested tensor cannot be saved in this format: .safetensors and .pt files "
         .. "take it",
         function() torch.save(x, "/nowhere/x.npy") end)
      assert.raises("save: /nowhere/x.npz: a: a nested tensor cannot be saved",
         function() torch.save({a = x}, "/nowhere/x.npz") end)
      assert.raises("autograd.backward: tensors: expected a Tensor, got a nested tensor",
         function() torch.autograd.backward(x) end)
      assert.raises("nested tensor: there is no \"foo\"", function() return x.foo end)
      assert.raises("backward: gradient: expected a nested tensor of the shape (3, ", function() x:backward() end)
   end)

   it("is saved in and loaded from safetensors files", function()
      local base <const> = os.tmpname()
      local path <const> = base .. ".safetensors"
      local turned = N.nested_tensor_from_jagged(torch.randn(2, 5, {dtype = "float64"}), torch.tensor {1, 3, 6},
         {jagged_dim = 3})
      local list = {sample(), holes(), turned, sample({dtype = "int32"}), N.nested_tensor {torch.zeros(0, 2)}}
      for _, x in ipairs(list) do
         torch.save(x, path)
         local y = torch.load(path, {device = tostring(x.device)})
         assert.is_true(y:equal(x))
         assert.same({x.dtype, x:tolist(), x:offsets():tolist(), x:lengths() and x:lengths():tolist()},
            {y.dtype, y:tolist(), y:offsets():tolist(), y:lengths() and y:lengths():tolist()})
      end
      local m = nn.Module()
      m.w = nn.Parameter(list[1])
      torch.save({model = m:state_dict(), list = list, note = "x"}, path)
      local loaded = torch.load(path, {device = tostring(list[1].device)})
      m:load_state_dict(loaded.model)
      assert.is_true(loaded.list[2]:equal(list[2]))
      assert.equal("x", loaded.note)
      local file = io.open(path, "rb")
      local bytes = file:read "a"
      file:close()
      local damaged, n = bytes:gsub('(\\"offsets\\":%[1,)3,', "%14,", 1)
      assert.equal(1, n)
      file = io.open(path, "wb")
      file:write(damaged)
      file:close()
      assert.raises("the structure has a malformed nested tensor: nested.nested_tensor_from_jagged: offsets[",
         function() torch.load(path) end)
      os.remove(path)
      os.remove(base)
   end)

   it("moves between devices and dtypes with its raggedness", function()
      local x = sample()
      assert.equal("cpu", tostring(x:cpu().device))
      assert.is_true(torch.equal(x, x:double():to("float32")))
      assert.equal(x:size(2), x:int():size(2))
      assert.equal("float32", x:type())
      local kept = torch.scope(function() return sample() * 2 end)
      assert.close(96, kept:sum(), 0)
      local y = sample()
      y:release()
      assert.raises("released", function() return y + 1 end)
      local inside = coroutine.wrap(function(a)
         local b = coroutine.yield(a * 2)
         return b:sum(2)
      end)
      assert.close({{6, 10, 14}, {0, 0, 0}, {20, 22, 24}}, inside(inside(x)), 0)
   end)
end)
