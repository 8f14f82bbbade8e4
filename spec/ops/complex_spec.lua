-- Tests complex numbers: values, dtypes, views, printing, files and refused calls. PyTorch's results are in
-- spec/fixtures/complex.py. spec/ops/table_spec.lua tests gradients.

local torch = require "tlua"

local device = require "spec.support.device"
local shell = require "spec.support.shell"

local reference = dofile "spec/fixtures/complex.lua"
local i = torch.complex(0, 1)

-- Returns a complex tensor from a list that alternates real and imaginary parts.
local function numbers(list, dtype)
   local pairs_of = torch.tensor(list, {dtype = "float64"}):reshape(-1, 2)
   return pairs_of:view_as_complex():to(dtype or "complex128")
end

-- Returns the elements as a list. Each complex number becomes two elements: its real part and its imaginary part.
local function elements(t)
   if t:is_complex() then t = t:view_as_real() end
   return t:reshape(-1):tolist()
end

local function close(expected, actual, tol, what)
   assert.equal(#expected, #actual, what)
   for k, e in ipairs(expected) do
      local a = actual[k]
      local same = e == a or (e ~= e and a ~= a)
      if not same and type(e) == "number" then same = math.abs(e - a) <= tol * math.max(1, math.abs(e)) end
      assert(same, ("%s: element %d: expected %s, got %s"):format(what, k, e, a))
   end
end

describe("a complex number", function()
   local z = torch.complex(1, 2)

   it("has fields, methods and text", function()
      assert.same({1.0, 2.0}, {z.real, z.imag})
      assert.equal("1+2i", tostring(z))
      assert.equal("-0.5-1.5i", tostring(torch.complex(-0.5, -1.5)))
      assert.equal("z = 1+2i", "z = " .. z)
      assert.equal(math.sqrt(5), z:abs())
      assert.equal(math.atan(2, 1), z:angle())
      assert.equal(torch.complex(1, -2), z:conj())
   end)

   it("computes with numbers and with its kind", function()
      assert.equal(torch.complex(-3, 4), z * z)
      assert.equal(torch.complex(2, 2), z + 1)
      assert.equal(torch.complex(0, -2), 1 - z)
      assert.equal(torch.complex(0.5, 1), z / 2)
      assert.equal(torch.complex(1, 0), z / z)
      assert.equal(torch.complex(1, 0), z ^ 0)
      assert.equal(torch.complex(-1, -2), -z)
   end)

   it("is taken wherever a number is", function()
      local x = torch.ones(2)
      for what, y in pairs {sum = x + z, reversed = z + x, product = x * z, method = x:add(z)} do
         assert.equal("complex64", y.dtype, what)
      end
      assert.same({2, 2, 2, 2}, elements(z + x))
      assert.same({0, -2, 0, -2}, elements(x - z))
      local filled = torch.full({2}, z)
      assert.equal("complex64", filled.dtype)
      filled[2] = 2 * i
      assert.same({1, 2, 0, 2}, elements(filled))
      assert.same({0, 1, 0, 1}, elements(filled:fill_(i)))
      assert.equal(z, torch.tensor {z, 3}[1]:item())
      assert.same({z, torch.complex(3, 0)}, torch.tensor({z, 3}):tolist())
   end)

   it("is refused where numbers are real", function()
      assert.raises("add: expected a real number for real tensors, got 1+2i",
         function() torch.ones(2):add(torch.ones(2), {alpha = z}) end)
      assert.raises("arange: does not take complex numbers", function() torch.arange(0, z) end)
      assert.raises("fill_: the complex number 1+2i does not fit in a tensor of dtype float32",
         function() torch.ones(2):fill_(z) end)
      assert.raises("torch.complex: expected the field real or imag", function() return z.re end)
      assert.raises("add: expected numbers or a Tensor, got string", function() return z + "x" end)
   end)

   it("is refused where a real result would lose its imaginary part", function()
      local mask, first, tensor = torch.tensor {true, false}, torch.tensor {1}, torch.tensor(z)
      local x, real <const> = torch.ones(2), {dtype = "float32"}
      local F <const> = torch.nn.functional
      for message, call in pairs {
         ["tensor: complex numbers do not fit"] = function() torch.tensor({z, 1}, real) end,
         ["masked_fill: the complex number 1+2i"] = function() x:masked_fill(mask, z) end,
         ["masked_fill: values of dtype complex64"] = function() x:masked_fill_(mask, tensor) end,
         ["index_fill: the complex number 1+2i"] = function() x:index_fill(1, first, z) end,
         ["index_fill: values of dtype complex64"] = function() x:index_fill(1, first, tensor) end,
         ["scatter: the complex number 1+2i"] = function() x:scatter_(1, first, z) end,
         ["index_put: the complex number 1+2i"] = function() x[mask] = z end,
         ["index_put: values of dtype complex64"] = function() x[first] = tensor:view(1) end,
         ["index_add: the complex number 1+2i"] = function() x:index_add_(1, first, first:float(), {alpha = z}) end,
         ["addmm: the complex number 1+2i"] =
            function() torch.addmm(x, torch.ones(2, 2), torch.ones(2, 2), {alpha = z}) end,
         ["baddbmm: the complex number 1+2i"] = function()
            local one <const> = torch.ones(1, 1, 1)
            one:baddbmm(one, one, {beta = z})
         end,
         ["pad: the complex number 1+2i"] = function() F.pad(x, {1, 1}, {value = z}) end,
         ["copy_: values of dtype complex64"] = function() x:copy_(tensor) end,
         ["copy_: values of dtype complex64 cannot be stored in a tensor of dtype float32"] =
            function() x[{}] = tensor end,
         ["index: copy_: values of dtype complex64"] = function() x[1] = tensor end,
         ["fill_: values of dtype complex64"] = function() x:fill_(tensor) end,
         ["slice_scatter: values of dtype complex64"] =
            function() x:slice_scatter(tensor:expand(2), 1) end,
      } do
         assert.raises(message, call)
         assert.same({1, 1}, x:tolist(), message)
      end
   end)

   it("is written to complex tensors by masks and positions", function()
      local x = torch.zeros(3, {dtype = "complex64"})
      x[torch.tensor {true, false, false}] = z
      x:index_fill_(1, torch.tensor {2}, z):scatter_(1, torch.tensor {3}, z)
      assert.same({z, z, z}, x:tolist())
   end)
end)

describe("complex dtypes", function()
   it("are made by every constructor", function()
      local options = {dtype = "complex128"}
      assert.same({0, 0}, elements(torch.zeros(1, options)))
      assert.same({1, 0}, elements(torch.ones(1, options)))
      assert.same({1, 0, 0, 0, 0, 0, 1, 0}, elements(torch.eye(2, options)))
      assert.same({1, 2}, elements(torch.tensor({torch.complex(1, 2)}, options)))
      assert.equal("complex128", torch.empty(2, options).dtype)
      assert.equal("complex64", torch.zeros_like(torch.ones(2, {dtype = "complex64"})).dtype)
      torch.manual_seed(1)
      local x = torch.randn(20000, options)
      assert(math.abs(x.real:var():item() - 0.5) < 0.02 and math.abs(x:var():item() - 1) < 0.02)
      local u = torch.rand(1000, {dtype = "complex64"})
      assert(u.real:min():item() >= 0 and u.imag:max():item() < 1)
   end)

   it("convert as PyTorch's", function()
      local z = torch.tensor {torch.complex(1.5, 2), i, torch.complex(0, 0)}
      assert.same({1.5, 0, 0}, elements(z:to "float64"))
      assert.same({1, 0, 0}, elements(z:to "int32"))
      assert.same({true, true, false}, elements(z:to "bool"))
      assert.same({3, 0}, elements(torch.tensor({3}):to "complex64"))
      assert.same({1.5, 0}, elements(torch.tensor({1.5}, {dtype = "float16"}):to "complex128"))
      local one <const> = torch.ones(1)
      assert.same({"complex64", "complex128"}, {one:cfloat().dtype, one:cdouble().dtype})
      assert.same(torch.finfo "float64", torch.finfo "complex128")
   end)

   it("warn once that a conversion drops imaginary parts", function()
      local output, status = shell.run(("%s -W -e %s 2>&1"):format(shell.start(), shell.quote [[
         local z = torch.tensor {torch.complex(1, 2)}
         z:to "complex128"; z:bool(); torch.real(z) -- no warning: none of these silently discards an imaginary part
         print(z:float():item(), z:to("float64"):item(), z:sum({dtype = "float32"}):item())]]))
      assert.equal(0, status, output)
      assert.matches(":3: float: casting complex values to real discards the imaginary part\n" ..
         "1%.0\t1%.0\t1%.0\n$", output)
      assert.equal(1, select(2, output:gsub("discards", "")))
   end)

   it("report that they are complex", function()
      local z = torch.ones(1, {dtype = "complex64"})
      assert.is_true(z:is_complex() and torch.is_complex(z))
      assert.is_false(z:is_floating_point())
      assert.same({8, 16}, {z:element_size(), z:to("complex128"):element_size()})
   end)
end)

describe("views of complex tensors", function()
   it("share memory as pairs", function()
      local z = torch.zeros(2, {dtype = "complex64"})
      local pairs_of = z:view_as_real()
      assert.same({2, 2}, pairs_of.shape)
      pairs_of[{2, 1}] = 5
      z.imag = torch.tensor {1, 2}
      z.real:add_(1)
      assert.same({1, 1, 6, 2}, elements(z))
      assert.same({1, 1, 6, 2}, elements(pairs_of:view_as_complex()))
      local turned = torch.zeros(2, 3, {dtype = "complex128"}):t()
      assert.same({2, 6, 1}, turned:view_as_real():stride())
   end)

   it("refuse a last dimension that is no pair", function()
      assert.raises("view_as_complex: expected a last dimension of size 2, got shape [3]",
         function() torch.zeros(3):view_as_complex() end)
      assert.raises("view_as_complex: expected pairs in memory",
         function() torch.zeros(2, 3):t():view_as_complex() end)
      assert.raises("view_as_complex: expected float32, float64 or float16, got int64",
         function() torch.zeros(2, {dtype = "int64"}):view_as_complex() end)
      assert.raises("imag: expected a complex tensor, got float32", function() return torch.ones(2).imag end)
   end)

   it("conjugate matrices and leave real tensors as they are", function()
      local z = torch.tensor {{i, 2}, {3, 4 * i}}
      assert.same({0, -1, 3, 0, 2, 0, 0, -4}, elements(z.H))
      assert.same(elements(z.mH), elements(z:adjoint()))
      local x = torch.ones(2)
      assert(x:conj() == x and torch.real(x) == x)
   end)
end)

describe("an operator on complex numbers", function()
   for name, expected in pairs(reference.unary) do
      it(name .. " gives PyTorch's values", function()
         local x = numbers(reference.points)
         close(expected, elements(torch[name](x)), 1e-12, name)
         close(expected, elements(torch[name](x:to "complex64")), 2e-5, name .. " in complex64")
         local gaps = torch.zeros(x:numel(), 2, {dtype = "complex128"})
         gaps:select(2, 1):copy_(x)
         close(expected, elements(torch[name](gaps:select(2, 1))), 1e-12, name .. " with gaps")
      end)
   end

   it("keeps infinities and NaN as PyTorch does", function()
      for name, expected in pairs(reference.at_edges) do
         close(expected, elements(torch[name](numbers(reference.edges))), 1e-12, name)
      end
   end)

   it("takes booleans as numbers", function()
      local z = torch.tensor {torch.complex(1, 2)}
      close({1, 0}, elements(torch.full_like(z, true)), 0, "full_like")
      close({1, 0}, elements(z:clone():fill_(true)), 0, "fill_")
      close({-2, 6}, elements(torch.addcmul(z, z, z, {value = true})), 1e-6, "addcmul")
      close({2, 2}, elements(z + true), 0, "sum")
   end)

   it("keeps imaginary parts in float_power", function()
      local z = torch.tensor {torch.complex(1, 2)}
      assert.equal("complex128", z:float_power(2).dtype)
      close({-3, 4}, elements(z:float_power(2)), 1e-12, "number")
      close({-3, 4}, elements(z:to("complex128"):float_power_(2)), 1e-12, "in place")
      close({0, 1}, elements(torch.tensor({-1.0}):float_power(torch.complex(0.5, 0))), 1e-12, "real")
   end)

   it("of two inputs gives PyTorch's values", function()
      local x = numbers(reference.some)
      local y = x:flip(1) + torch.complex(0.25, 0.5)
      for name, expected in pairs(reference.binary) do close(expected, elements(torch[name](x, y)), 1e-12, name) end
   end)

   it("reduces as PyTorch does", function()
      local x = numbers(reference.some)
      for name, expected in pairs(reference.reduced) do
         local result = name:find "^cum" and x[name](x, 1) or x[name](x)
         close(expected, elements(result), 1e-10, name)
      end
      local empty = torch.zeros(0, 2, {dtype = "complex64"})
      assert.same({0, 0, 0, 0}, elements(empty:sum(1)))
      assert.same({1, 0, 1, 0}, elements(empty:prod(1)))
   end)

   it("of layers and statistics gives PyTorch's values", function()
      local F, C <const> = torch.nn.functional, {dtype = "complex128"}
      local function made(fn, ...)
         local sizes = {...}
         sizes[#sizes + 1] = 2
         local n = 1
         for _, size in ipairs(sizes) do n = n * size end
         return fn(torch.arange(n, {dtype = "float64"})):reshape(sizes):view_as_complex()
      end
      local image, kernel = made(torch.sin, 2, 4, 5, 4), made(torch.cos, 4, 2, 3, 2)
      local bias = torch.tensor({torch.complex(1, 2), -0.5 * i, 0.25, torch.complex(3, -1)}, C)
      local rows = image[{1, {1, 2}, {}, 1}]:contiguous()
      local x = numbers(reference.some)
      local y = x:flip(1) + torch.complex(0.25, 0.5)
      local nan <const>, inf <const> = 0 / 0, math.huge
      local odd = torch.tensor({torch.complex(nan, inf), torch.complex(-inf, 1),
         torch.complex(2, nan), torch.complex(1, 1)}, C)
      local line = kernel:select(4, 1)
      local variance, mean = torch.var_mean(rows, 2)
      for name, actual in pairs {
         conv2d = F.conv2d(image, kernel, bias, {2, 1}, 1, {1, 2}, 2),
         conv_transpose2d = F.conv_transpose2d(image, kernel, bias, 2, 1, 1, 2),
         conv1d = F.conv1d(rows, line), unfold = F.unfold(image, 3),
         linear = F.linear(rows[{{}, {1, 2}}], line[{1, {}, {1, 2}}], bias[{{1, 2}}]),
         bilinear = F.bilinear(rows[{{}, {1, 2}}], rows[{{}, {1, 3}}],
            line[{{1, 2}}].mT[{{}, {1, 2}, {1, 1}}]:expand(2, 2, 3)),
         silu = F.silu(x), softsign = F.softsign(x), tanhshrink = F.tanhshrink(x),
         logsumexp = rows:logsumexp(2), logaddexp = x:logaddexp(y),
         rms_norm = F.rms_norm(rows, {5}, rows[1]), cov = torch.cov(rows),
         corrcoef = torch.corrcoef(rows), renorm = rows:renorm(2, 1, 1.0),
         nan_to_num = odd:nan_to_num(7), ldexp = x:ldexp(torch.tensor(3)),
         gradient = torch.gradient(rows, {dim = 2})[1],
         linspace = torch.linspace(torch.complex(1, -2), torch.complex(3, 1), 4, C),
         logspace = torch.logspace(0, torch.complex(1, 1), 3, C),
         var_mean = torch.stack {variance:to "complex128", mean},
         triplet = F.triplet_margin_loss(rows, rows:flip(1), rows * (2 * i)),
         vecdot = torch.linalg.vecdot(rows, rows:flip(2)),
      } do
         close(reference.functions[name], elements(actual), 1e-10, name)
      end
      assert.equal("complex64", torch.linspace(0, i, 3).dtype)
      assert.raises("linspace: the complex number 0+1i does not fit in a tensor of dtype float32",
         function() torch.linspace(0, i, 3, {dtype = "float32"}) end)
   end)

   it("drops whole numbers, not one of their parts", function()
      local F <const> = torch.nn.functional
      local z = torch.full({1000}, torch.complex(1, 2))
      torch.manual_seed(1)
      for name, y in pairs {
         dropout = F.dropout(z, 0.5), dropout1d = F.dropout1d(z:view(10, 100, 1), 0.5):flatten(),
      } do
         local kept = y:ne(0)
         assert.is_true(kept:sum():item() > 400 and kept:sum():item() < 600, name)
         assert.is_true(torch.equal(y[kept], z[kept] * 2), name)
      end
      assert.is_true(F.alpha_dropout(z, 0.5, true):isfinite():all():item())
   end)

   it("multiplies matrices like the sums of products", function()
      torch.manual_seed(3)
      local options = {dtype = "complex128"}
      local a, b = torch.randn(2, 3, 4, options), torch.randn(2, 4, 5, options)
      local expected = (a:unsqueeze(-1) * b:unsqueeze(2)):sum(3)
      for what, product in pairs {
         bmm = a:bmm(b), matmul = a:matmul(b), einsum = torch.einsum("bik,bkj->bij", a, b),
         strided = a:transpose(2, 3):contiguous():transpose(2, 3):bmm(b),
      } do
         close(elements(expected), elements(product), 1e-12, what)
      end
      local c = torch.randn(2, 3, 5, options)
      local sum = c * torch.complex(0.5, 1) + expected * torch.complex(2, -1)
      local added = c:baddbmm(a, b, {beta = torch.complex(0.5, 1), alpha = torch.complex(2, -1)})
      close(elements(sum), elements(added), 1e-12, "baddbmm")
      local v, w = a[1][1], a[1][2]
      close(elements((v * w):sum()), elements(v:dot(w)), 1e-12, "dot")
      close(elements((v:conj() * w):sum()), elements(v:vdot(w)), 1e-12, "vdot")
      close(elements((a[1] * v):sum(2)), elements(a[1]:mv(v)), 1e-12, "mv")
      assert.same({2, 0, 5}, torch.zeros(2, 0, 3, options):bmm(torch.zeros(2, 3, 5, options)).shape)
   end)

   it("indexes, joins and compares", function()
      local z = torch.tensor {1 * i, 2, torch.complex(3, 1)}
      assert.same({3, 1, 0, 1}, elements(z:index_select(1, torch.tensor {3, 1})))
      assert.same({2, 0, 3, 1}, elements(z[z:abs():gt(1.5)]))
      assert.same({0, 1, 0, 1}, elements(z:gather(1, torch.tensor {1, 1})))
      assert.same({0, 1, 2, 0, 3, 1, 0, 1}, elements(torch.cat {z, z[{{1, 1}}]}))
      local sums = torch.zeros(2, {dtype = "complex64"}):index_add(1, torch.tensor {1, 1, 2}, z)
      assert.same({2, 1, 3, 1}, elements(sums))
      assert.same({9, 0, 2, 0, 3, 1}, elements(z:masked_fill(z:eq(i), 9)))
      assert.is_true(torch.equal(z, z:clone()) and torch.allclose(z, z + 1e-9))
      assert.same({0, 1, 0, 0, 0, 0}, elements(torch.where(z:eq(i), z, 0)))
   end)

   it("is an error if it has no meaning for them", function()
      local z = torch.ones(2, {dtype = "complex64"})
      for name, call in pairs {
         sort = function() z:sort() end, lt = function() return z:lt(z) end,
         clamp = function() return z:clamp(0, 1) end, floor = function() return z:floor() end,
         maximum = function() return torch.maximum(z, z) end,
         argmax = function() return z:argmax() end, sign = function() return z:sign() end,
         cummax = function() return z:cummax(1) end, relu = function() return torch.relu(z) end,
         mse_loss = function() torch.nn.functional.mse_loss(z, z) end,
      } do
         assert.raises(name .. ": does not take complex numbers", call)
      end
      assert.raises("abs_: does not take complex tensors, since the result is real", function() z:abs_() end)
      assert.raises("add_: a result of dtype complex64 cannot be stored in a tensor of dtype float32",
         function() torch.ones(2):add_(z) end)
      assert.raises("comparison: complex numbers have no order", function() return z[1] < 1 end)
   end)
end)

describe("a module of complex parameters", function()
   local nn <const> = torch.nn

   it("computes, is cast and compared", function()
      local m = nn.Linear(3, 2):to "complex64"
      assert.equal("complex64", m.weight.dtype)
      -- double() converts only real parameters, so this one stays complex64
      assert.equal("complex64", m:double().weight.dtype)
      assert.equal("complex128", m:to("complex128").weight.dtype)
      assert.equal("complex64", nn.Conv2d(3, 2, 3, {dtype = "complex64"}).weight.dtype)
      local u = nn.init.orthogonal_(torch.zeros(3, 2, {dtype = "complex128"}))
      assert.close(torch.eye(2, {dtype = "complex128"}), u.mH:matmul(u), 1e-12)
      assert.is_true(u.imag:abs():sum():item() > 0)
      assert.same({i, i}, nn.init.constant_(torch.zeros(2, {dtype = "complex64"}), i):tolist())
      local z = torch.tensor {torch.complex(1, 2)}
      torch.testing.assert_close(z, z + 1e-7)
      assert.raises("Greatest absolute difference: 1 at index (1) (up to 1e-05 allowed)",
         function() torch.testing.assert_close(z, z + i) end)
   end)
end)

describe("gradients of complex numbers", function()
   it("are PyTorch's: of real functions, the sum over both parts", function()
      local z = torch.tensor({torch.complex(1, 2), i}):requires_grad_()
      z:abs():square():sum():backward()
      assert.same({2, 4, 0, 2}, elements(z.grad))
   end)

   it("of real inputs are real", function()
      local x = torch.tensor({1.0, 2.0}):requires_grad_()
      local y = x * torch.complex(3, 4)
      y:backward(torch.ones(2, {dtype = "complex64"}))
      assert.equal("float32", x.grad.dtype)
      assert.same({3, 3}, elements(x.grad))
   end)

   it("of empty tensors are empty", function()
      local z = torch.zeros(0, 3, {dtype = "complex64", requires_grad = true})
      local product = z * z
      product.real:sum():backward()
      assert.same({0, 3}, z.grad.shape)
      assert.same({3, 0}, torch.zeros(3, 0, 2):view_as_complex().shape)
   end)

   it("begin with a gradient that is given", function()
      local z = torch.ones(1, {dtype = "complex64", requires_grad = true})
      assert.raises("backward: only a real tensor has a gradient to start with; got complex64",
         function() (z * z):sum():backward() end)
   end)
end)

it("printing complex numbers is PyTorch's", function()
   for _, row in ipairs(reference.printed) do
      local real, imag, dtype, text = table.unpack(row)
      local options = {dtype = "float64"}
      local z = torch.complex(torch.tensor(real, options), torch.tensor(imag, options)):to(dtype)
      assert.equal(text, tostring(z:cpu()))
   end
end)

describe("products, quotients and sums of complex numbers", function()
   local function random(dtype, ...) return torch.randn({...}, {dtype = dtype, device = "cpu"}) end

   it("round each product, so that terms cancel exactly", function()
      for _, dtype in ipairs {"complex64", "complex128"} do
         local z = random(dtype, 1003)
         assert.same(0.0, (z * z:conj()).imag:abs():max():item())
         assert.is_true(torch.equal((z * z:conj()).real, z.real * z.real + z.imag * z.imag))
         local turned = z * torch.complex(0, 1)
         assert.is_true(torch.equal(turned.real, -z.imag))
         assert.is_true(torch.equal(z:square().real, z.real * z.real - z.imag * z.imag))
      end
   end)

   it("have PyTorch's infinities at a division by zero", function()
      local z = numbers({1, -2, 0, 3, 0, 0, 0 / 0, 1}):cpu()
      local function check(expected, result)
         for k, value in ipairs(expected) do
            local got = result:view_as_real():flatten()[k]:item()
            assert.is_true(value == got or value ~= value and got ~= got, k)
         end
      end
      local inf, nan = math.huge, 0 / 0
      check({inf, -inf, nan, inf, nan, nan, nan, inf}, z / torch.zeros({4}, {dtype = "complex128", device = "cpu"}))
      check({inf, nan}, numbers({0, 0}):cpu():reciprocal())
      check({0.2, 0.4}, z[{{1, 1}}]:reciprocal())
   end)

   it("agree for rows of every length, in whole blocks and at their ends", function()
      for _, n in ipairs {1, 15, 16, 17, 63, 64, 127, 128, 129, 160, 1000} do
         -- if there are eight rows or more, the kernel of cumsum transposes them
         local rows = n % 2 == 0 and 3 or 9
         local z, w = random("complex128", rows, n), random("complex128", rows, n)
         local a, b, c, d = z.real, z.imag, w.real, w.imag
         assert.close(torch.complex(a * c - b * d, a * d + b * c), z * w, 1e-12)
         assert.close(z, (z * w) / w, 1e-9)
         assert.close((a * a + b * b):sqrt(), z:abs(), 1e-12)
         assert.close(torch.complex(a:sum(2), b:sum(2)), z:sum(2), 1e-12)
         assert.close(torch.complex(a:sum {1, 2}, b:sum {1, 2}), z:sum(), 1e-11)
         assert.same({rows, 1}, {table.unpack(z:sum(2, true).shape)})
         assert.close(torch.complex(a:cumsum(2), b:cumsum(2)), z:cumsum(2), 1e-12)
         assert.close(torch.complex(a:cumsum(1), b:cumsum(1)), z:cumsum(1), 1e-12)
         assert.close((z[1] * w[1]):sum(), torch.dot(z[1], w[1]), 1e-11)
         assert.close((z[1]:conj() * w[1]):sum(), torch.vdot(z[1], w[1]), 1e-11)
      end
   end)

   it("of matrices are the sums of real products, for views, large sizes and any number of threads", function()
      local function with_threads(n, call)
         local before = torch.get_num_threads()
         torch.set_num_threads(n)
         local result = call()
         torch.set_num_threads(before)
         return result
      end
      for _, dtype in ipairs {"complex64", "complex128"} do
         local tolerance = dtype == "complex64" and 2e-4 or 1e-12
         -- The sizes cover few and many rows, more terms than one panel has, and so many columns that the kernel packs
         -- the rows of the left matrix.
         for _, size in ipairs {{3, 70, 5}, {130, 9, 33}, {400, 150, 37}, {7, 40, 300}} do
            local m, k, n = table.unpack(size)
            local lefts = {random(dtype, m, k), random(dtype, k, m):t(), random(dtype, m, k + 3):narrow(2, 2, k),
               random(dtype, m, k).mH.mH}
            local rights = {random(dtype, k, n), random(dtype, n, k):t(), random(dtype, k, n + 1):narrow(2, 2, n),
               random(dtype, n, k).mH}
            for _, x in ipairs(lefts) do
               for _, y in ipairs(rights) do
                  local a, b, c, d = x.real, x.imag, y.real, y.imag
                  local product = with_threads(1, function() return x:mm(y) end)
                  assert.close(torch.complex(a:mm(c) - b:mm(d), a:mm(d) + b:mm(c)), product, tolerance)
                  assert.is_true(torch.equal(product, with_threads(2, function() return x:mm(y) end)))
               end
            end
            local gram = lefts[1]:mm(lefts[1].mH)
            assert(device.name or torch.equal(gram, gram.mH), "the product of z and z.mH is not exactly Hermitian")
         end
      end
   end)
end)

-- On a device there are no such tests, because files are read and written through the CPU.
describe("files of complex numbers", device.name and function() end or function()
   it("are read as they were written", function()
      local name = os.tmpname()
      local z = torch.tensor {{torch.complex(1, 2), 3}, {4, torch.complex(0, -1)}}
      for _, ending in ipairs {".npy", ".safetensors", ".pt"} do
         local path = name .. ending
         torch.save(ending == ".npy" and z or {z = z}, path)
         local back = torch.load(path)
         back = ending == ".npy" and back or back.z
         assert(back.dtype == "complex64" and torch.equal(z, back:to(z.device)), ending)
         os.remove(path)
      end
      os.remove(name)
   end)

   it("may have the other order of bytes", function()
      local path = os.tmpname() .. ".npy"
      local header = "{'descr': '>c16', 'fortran_order': False, 'shape': (1,), }"
      local file = assert(io.open(path, "wb"))
      file:write("\x93NUMPY\1\0", ("<s2"):pack(header), (">dd"):pack(1, -2))
      file:close()
      assert.same({1, -2}, elements(torch.load(path)))
      os.remove(path)
   end)
end)
