-- Tests Torch7's package torch: tensors, storages, result arguments, printing, classes and random numbers.

local torch = require "torch7"
local tlua = require "tlua"

local function same(expected, x) assert.same(expected, x:totable()) end

describe("Torch7's tensors", function()
   it("have a type for each dtype, which results keep", function()
      assert.equal("torch.DoubleTensor", torch.Tensor(2):type())
      for _, name in ipairs {"Double", "Float", "Byte", "Char", "Short", "Int", "Long"} do
         local x = torch[name .. "Tensor"] {1, 2}
         assert.equal(("torch.%sTensor"):format(name), torch.type(x))
         assert.equal(torch.type(x), torch.type(x:clone():add(1)))
         assert.equal(torch.type(x), torch.type(torch.mul(x, 2)))
         same({2.0, 4.0}, torch.mul(x, 2):double())
         assert.equal(torch.type(x), torch.type(x[{{1, 1}}]))
      end
      assert.equal("torch.ByteTensor", torch.type(torch.Tensor {1, 2}:gt(1)))
      local _, at = torch.Tensor {1, 2}:max(1)
      assert.equal("torch.LongTensor", torch.type(at))
      assert.equal("torch.FloatTensor", torch.type(torch.Tensor(2):float()))
      same({1, 255}, torch.Tensor {257, -1}:byte())
   end)

   it("are tlua's values, and its operators take them", function()
      local x = torch.Tensor {1, 2}
      assert.is_true(tlua.is_tensor(x))
      assert.same({2.0, 4.0}, tlua.add(x, x):tolist())
      assert.same({3.0, 5.0}, (tlua.tensor({1.0, 2.0}, {dtype = "float64"}):mul(2) + 1):tolist())
   end)

   it("take a result in front, and work in place as methods", function()
      local x, y, r = torch.Tensor {1, 2}, torch.Tensor {3, 4}, torch.Tensor()
      assert.equal(r, torch.add(r, x, y))
      same({4.0, 6.0}, r)
      same({7.0, 10.0}, torch.add(x, 2, y))
      assert.equal(x, x:add(y))
      same({4.0, 6.0}, x)
      same({5.0, 6.0}, x:add(y, 2))
      same({6.0, 8.0}, x:add(y, y))
      same({12.0, 16.0}, x:mul(2))
      same({24.0, 32.0}, x:add(1, x))
      same({3.0, 4.0}, y)
      same({-3.0, -4.0}, torch.Tensor():neg(y))
      same({3.0, 8.0}, torch.cmul(y, torch.Tensor {1, 2}))
      same({1.5, 2.0}, torch.div(y, 2))
      same({9.0, 16.0}, torch.pow(y, 2))
      same({8.0, 16.0}, torch.pow(2, y))
      same({7.0, 12.0}, torch.addcmul(y, 1, torch.Tensor {2, 2}, torch.Tensor {2, 4}))
      same({3.0, 3.5}, torch.clamp(y, 1, 3.5))
      same({3, -3}, torch.IntTensor {7, -7}:div(2))
      same({{5.0, 5.0}, {5.0, 5.0}}, torch.Tensor(2, 2):fill(2):add(torch.Tensor(4):fill(3)))
      same({{8.0, 8.0}, {8.0, 8.0}}, torch.Tensor(2, 2):fill(2):add(2, torch.Tensor(4):fill(3)))
      same({1.0, 1.0, 1.0, 1.0}, torch.Tensor(4):fill(3) - torch.Tensor(2, 2):fill(2))
      same({4.0, 3.0}, 5 - torch.Tensor {1, 2})
      same({{32.0}, {32.0}}, torch.Tensor(2, 1):fill(2):addcmul(2, torch.Tensor(2):fill(3), torch.Tensor(2):fill(5)))
      same({1.0, 1.0, 1.0}, torch.Tensor(torch.LongStorage {3}, torch.LongStorage {0}):fill(1))
      assert.raises("of as many elements, got 6 and 3", function() torch.Tensor(2, 3):add(torch.Tensor(3)) end)
      assert.raises("torch.add: expected", function() x:add("2") end)
   end)

   it("read and write elements and parts by indices", function()
      local x = torch.Tensor {{1, 2, 3}, {4, 5, 6}}
      assert.equal(2.0, x[1][2])
      assert.equal(6.0, x[{2, 3}])
      assert.equal(6.0, x[torch.LongStorage {2, 3}])
      same({4.0, 5.0, 6.0}, x[2])
      same({2.0, 5.0}, x[{{}, 2}])
      same({{2.0, 3.0}}, x[{{1}, {2, 3}}])
      same({{5.0, 6.0}}, x[{{-1}, {-2, -1}}])
      same({4.0, 5.0, 6.0}, x[x:gt(3)])
      x[{{}, 1}] = 0
      same({{0.0, 2.0, 3.0}, {0.0, 5.0, 6.0}}, x)
      x[1] = 9
      x[2][2] = 7
      x[x:eq(6)] = -1
      same({{9.0, 9.0, 9.0}, {0.0, 7.0, -1.0}}, x)
      x[{{}, {1, 2}}] = torch.Tensor {{1, 2}, {3, 4}}
      same({{1.0, 2.0, 9.0}, {3.0, 4.0, -1.0}}, x)
      assert.is_false(pcall(function() return x[3] end))
   end)

   it("have no dimensions without elements, and numbers in place of 0-d tensors", function()
      assert.equal(0, torch.Tensor():dim())
      assert.equal(0, torch.Tensor():size():size())
      assert.equal("[torch.DoubleTensor with no dimension]\n", tostring(torch.Tensor()))
      for _, name in ipairs {"sum", "max", "min", "mean", "prod", "std", "var", "norm", "median"} do
         assert.equal("number", type(torch.Tensor {1, 2, 3}[name](torch.Tensor {1, 2, 3})), name)
      end
      assert.equal(11.0, torch.Tensor {1, 2}:dot(torch.Tensor {3, 4}))
   end)

   it("keep the dimension that they reduce", function()
      local x = torch.Tensor {{1, 5}, {4, 2}}
      same({{6.0}, {6.0}}, x:sum(2))
      same({{5.0, 7.0}}, x:sum(1))
      same({{3.0}, {3.0}}, torch.mean(x, 2))
      local values, at = torch.max(x, 2)
      same({{5.0}, {4.0}}, values)
      same({{2}, {1}}, at)
      values, at = torch.sort(torch.Tensor {3, 1, 2}, 1, true)
      same({3.0, 2.0, 1.0}, values)
      same({1, 3, 2}, at)
      same({1.0, 3.0, 6.0}, torch.cumsum(torch.Tensor {1, 2, 3}))
      values = torch.topk(torch.Tensor {3, 1, 2}, 2, 1, true, true)
      same({3.0, 2.0}, values)
      assert.equal(5.0, torch.norm(torch.Tensor {3, 4}))
      same({{1.0}, {4.0}}, (torch.kthvalue(torch.Tensor {{1, 2}, {5, 4}}, 1)))
      local v, i = torch.Tensor(), torch.LongTensor()
      torch.max(v, i, x, 1)
      same({{4.0, 5.0}}, v)
      same({{2, 1}}, i)
   end)

   it("share storages, and are resized, set and viewed", function()
      local x = torch.range(1, 6):resize(2, 3)
      local s = x:storage()
      assert.equal(6, #s)
      s[1] = 9
      assert.equal(9.0, x[1][1])
      assert.equal(4, x[2]:storageOffset())
      assert.equal(3, x:stride(1))
      same({{9.0, 4.0}, {2.0, 5.0}, {3.0, 6.0}}, x:t())
      assert.is_false(x:t():isContiguous())
      local y = torch.Tensor():set(s, 2, 2, 1)
      same({2.0, 3.0}, y)
      y:fill(0)
      assert.equal(0.0, x[1][2])
      same({9.0, 0.0}, torch.Tensor(s, 1, torch.LongStorage {2}))
      assert.same({3, 2}, x:view(3, 2):size():totable())
      assert.same({3, 2}, x:view(-1, 2):size():totable())
      assert.same({2, 3, 4}, x:view(2, 3, 1):expand(2, 3, 4):size():totable())
      assert.same({4, 3}, x:repeatTensor(2, 1):size():totable())
      same({{0.0}, {5.0}}, x:narrow(2, 2, 1))
      same({{0.0, 0.0}, {5.0, 6.0}}, x:sub(1, 2, 2, 3))
      same({{0.0, 0.0}, {5.0, 6.0}}, x:sub(1, -1, -2, -1))
      assert.is_true(x:isSameSizeAs(torch.Tensor(2, 3)))
      assert.is_true(x:isSetTo(x:view(2, 3)))
      x:resizeAs(torch.Tensor(3, 2))
      assert.same({3, 2}, x:size():totable())
      assert.equal(2, #x:split(2, 1))
      assert.equal(3, #x:chunk(3, 1))
      same({{1.0, 2.0}, {2.0, 3.0}}, torch.Tensor {1, 2, 3}:unfold(1, 2, 1))
   end)

   it("copy between types and sizes of as many elements", function()
      same({{1, 2}, {3, 4}}, torch.IntTensor(2, 2):copy(torch.Tensor {1, 2, 3, 4}))
      assert.raises("copy: expected 2 elements, got 3", function() torch.Tensor(2):copy(torch.Tensor(3)) end)
   end)

   it("are changed by functions of elements", function()
      local x = torch.Tensor {1, 2}
      same({2.0, 4.0}, x:apply(function(v) return v * 2 end))
      same({2.0, 4.0}, x:apply(function() end))
      same({5.0, 10.0}, x:map(torch.Tensor {3, 6}, function(a, b) return a + b end))
      same({5.0, 11.0}, x:map2(torch.Tensor {0, 1}, torch.Tensor {1, 1}, function(a, b, c) return a + b * c end))
   end)

   it("take, set and add elements by positions", function()
      local x = torch.Tensor {{1, 2}, {3, 4}}
      same({{3.0, 4.0}, {1.0, 2.0}}, x:index(1, torch.LongTensor {2, 1}))
      same({{2.0}, {3.0}}, x:gather(2, torch.LongTensor {{2}, {1}}))
      same({{0.0, 5.0}}, torch.zeros(1, 2):scatter(2, torch.LongTensor {{2}}, 5))
      same({{9.0, 2.0}, {9.0, 4.0}}, x:clone():indexFill(2, torch.LongTensor {1}, 9))
      same({{1.0, 2.0}, {7.0, 8.0}}, x:clone():indexCopy(1, torch.LongTensor {2}, torch.Tensor {{7, 8}}))
      same({{8.0, 10.0}, {3.0, 4.0}}, x:clone():indexAdd(1, torch.LongTensor {1}, torch.Tensor {{7, 8}}))
      same({3.0, 4.0}, x:maskedSelect(x:gt(2)))
      same({{1.0, 2.0}, {0.0, 0.0}}, x:clone():maskedFill(x:gt(2), 0))
      same({{2}, {3}}, torch.nonzero(torch.Tensor {0, 1, 2}))
   end)

   it("find eigenvalues and eigenvectors of matrices that are not symmetric", function()
      local a = torch.Tensor {{0, 1, 0}, {-1, 0, 0}, {0, 0, 2}}
      local e, v = torch.eig(a, "V")
      same({{0.0, 1.0}, {0.0, -1.0}, {2.0, 0.0}}, e)
      local re, im = v:select(2, 1), v:select(2, 2) -- the eigenvalues are i and -i: a (re + i im) = i (re + i im)
      assert.is_true((torch.mv(a, re) + im):abs():max() < 1e-12)
      assert.is_true((torch.mv(a, im) - re):abs():max() < 1e-12)
      assert.equal(0, (select(2, torch.eig(a:float(), "N"))):nElement())
      assert.equal("torch.FloatTensor", torch.eig(a:float()):type())
      assert.raises('torch.eig: expected "N" or "V", got X', function() torch.eig(a, "X") end)
   end)

   it("solve, factor and multiply", function()
      local a = torch.Tensor {{4, 1}, {1, 3}}
      local x = torch.gesv(torch.Tensor {{1}, {2}}, a)
      assert.is_true((torch.mm(a, x) - torch.Tensor {{1}, {2}}):abs():max() < 1e-12)
      local u = torch.potrf(a)
      assert.is_true((torch.mm(u:t(), u) - a):abs():max() < 1e-12)
      local l = torch.potrf(a, "L")
      assert.is_true((torch.mm(l, l:t()) - a):abs():max() < 1e-12)
      local e, v = torch.symeig(a, "V")
      assert.is_true((torch.mm(a, v) - torch.mm(v, torch.diag(e))):abs():max() < 1e-12)
      local p, s, q = torch.svd(a)
      assert.is_true((torch.mm(torch.mm(p, torch.diag(s)), q:t()) - a):abs():max() < 1e-12)
      local qq, r = torch.qr(a)
      assert.is_true((torch.mm(qq, r) - a):abs():max() < 1e-12)
      assert.is_true((torch.mm(torch.inverse(a), a) - torch.eye(2)):abs():max() < 1e-12)
      local b = torch.Tensor {{1}, {2}, {4}}
      local fit = torch.gels(b, torch.Tensor {{1, 0}, {1, 1}, {1, 2}})
      assert.is_true((fit:narrow(1, 1, 2) - torch.Tensor {{5 / 6}, {1.5}}):abs():max() < 1e-12)
      -- The square of this element is the sum of the squared residuals.
      assert.is_true(math.abs(fit[3][1] ^ 2 - 1 / 6) < 1e-12)
      assert.raises("torch.gels: the matrix has no full rank: element 2 of the diagonal", function()
         torch.gels(b, torch.Tensor {{1, 0}, {1, 0}, {1, 0}})
      end)
      assert.raises("torch.gels: expected a matrix b and a matrix a of as many rows, got sizes {3, 1} and {2, 2}",
         function() torch.gels(b, a) end)
      assert.raises("expected a matrix b", function() torch.gels(torch.ones(2, 2, 2), a) end)
      local f, order = torch.pstrf(a)
      local back = torch.mm(f:t(), f)
      for i = 1, 2 do
         for j = 1, 2 do assert.is_true(math.abs(back[i][j] - a[order[i]][order[j]]) < 1e-12) end
      end
      same({5.0, 11.0}, torch.mv(torch.Tensor {{1, 2}, {3, 4}}, torch.Tensor {1, 2}))
      same({{3.0, 4.0}, {6.0, 8.0}}, torch.ger(torch.Tensor {1, 2}, torch.Tensor {3, 4}))
      same({{8.0, 2.0}, {2.0, 6.0}}, torch.addmm(a, a, torch.eye(2)))
      same({{12.0, 3.0}, {3.0, 9.0}}, a:clone():addmm(1, a, 2, a, torch.eye(2)))
      same({{4.0, 1.0}, {1.0, 3.0}}, torch.Tensor(2, 2):fill(9):addmm(0, 1, a, torch.eye(2)))
      assert.equal(5.0, torch.Tensor {1, 2} * torch.Tensor {1, 2})
      same({6.0, 7.0}, a * torch.Tensor {1, 2})
   end)

   it("convolve and correlate", function()
      local x, k = torch.Tensor {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, torch.Tensor {{1, 0}, {0, 2}}
      same({{1.0 + 10, 2.0 + 12}, {4.0 + 16, 5.0 + 18}}, torch.xcorr2(x, k))
      same({{5.0 + 2, 6.0 + 4}, {8.0 + 8, 9.0 + 10}}, torch.conv2(x, k))
      assert.same({4, 4}, torch.conv2(x, k, "F"):size():totable())
      assert.same({2, 2, 2}, torch.xcorr2(torch.rand(3, 3, 3), torch.rand(2, 3, 2, 2)):size():totable())
   end)

   it("make ranges, histograms, concatenations and triangles", function()
      same({1.0, 2.0, 3.0}, torch.range(1, 3))
      same({1.0, 3.0}, torch.range(1, 4, 2))
      same({0.0, 0.5, 1.0}, torch.linspace(0, 1, 3))
      same({{1.0, 0.0}, {0.0, 1.0}}, torch.eye(2))
      same({2.0, 1.0}, torch.histc(torch.Tensor {1, 1, 2}, 2))
      same({1.0, 2.0, 3.0}, torch.cat(torch.Tensor {1}, torch.Tensor {2, 3}))
      same({{1.0, 2.0}}, torch.cat({torch.Tensor {{1}}, torch.Tensor(), torch.Tensor {{2}}}, 2))
      same({{1.0, 2.0}, {0.0, 4.0}}, torch.triu(torch.Tensor {{1, 2}, {3, 4}}))
      same({{1.0, 0.0}, {3.0, 4.0}}, torch.tril(torch.Tensor {{1, 2}, {3, 4}}))
      assert.equal(5.0, torch.trace(torch.Tensor {{1, 2}, {3, 4}}))
      assert.equal(10, torch.randperm(10):nElement())
      assert.equal(55.0, torch.randperm(10):sum())
      assert.same({4}, torch.multinomial(torch.Tensor {0, 0, 0, 1}, 1):totable())
   end)

   it("print as Torch7 printed", function()
      assert.equal(" 1  2\n 3  4\n[torch.DoubleTensor of size 2x2]\n", tostring(torch.Tensor {{1, 2}, {3, 4}}))
      assert.equal(" 0.5000\n 2.2500\n[torch.FloatTensor of size 2]\n", tostring(torch.FloatTensor {0.5, 2.25}))
      assert.equal(" 1\n-2\n[torch.IntTensor of size 2]\n", tostring(torch.IntTensor {1, -2}))
      assert.equal("(1,.,.) = \n  1  2\n\n(2,.,.) = \n  3  4\n[torch.DoubleTensor of size 2x1x2]\n",
         tostring(torch.Tensor {{{1, 2}}, {{3, 4}}}))
      assert.equal(" 2\n 3\n[torch.LongStorage of size 2]\n", tostring(torch.Tensor(2, 3):size()))
      assert.matches("^Columns 1 to ", tostring(torch.zeros(1, 100)))
   end)
end)

it("Torch7's default type is set, and used by constructions", function()
   torch.setdefaulttensortype "torch.FloatTensor"
   local types = {torch.Tensor(1):type(), torch.zeros(1):type(), torch.randn(1):type(), torch.getdefaulttensortype()}
   torch.setdefaulttensortype "torch.DoubleTensor"
   for _, name in ipairs(types) do assert.equal("torch.FloatTensor", name) end
   assert.raises("there is no type torch.NoTensor", function() torch.setdefaulttensortype "torch.NoTensor" end)
end)

describe("Torch7's random functions", function()
   it("repeat after a seed, of the default or of a generator", function()
      torch.manualSeed(7)
      local a, b, c = torch.uniform(), torch.randn(3):totable(), torch.random(1, 100)
      torch.manualSeed(7)
      assert.equal(a, torch.uniform())
      assert.same(b, torch.randn(3):totable())
      assert.equal(c, torch.random(1, 100))
      local g = torch.Generator()
      torch.manualSeed(g, 3)
      local d = torch.uniform(g, 2, 5)
      torch.manualSeed(g, 3)
      assert.equal(d, torch.uniform(g, 2, 5))
      local state = torch.getRNGState()
      local e = torch.rand(2):totable()
      torch.setRNGState(state)
      assert.same(e, torch.rand(2):totable())
   end)

   it("fill tensors with their distributions", function()
      local n = 20000
      local function moments(x) return x:mean(), x:std() end
      local mean, std = moments(torch.Tensor(n):normal(3, 2))
      assert.is_true(math.abs(mean - 3) < 0.1 and math.abs(std - 2) < 0.1)
      mean = moments(torch.Tensor(n):uniform(2, 4))
      assert.is_true(math.abs(mean - 3) < 0.05)
      mean = moments(torch.Tensor(n):exponential(2))
      assert.is_true(math.abs(mean - 0.5) < 0.05)
      mean = moments(torch.Tensor(n):bernoulli(0.25))
      assert.is_true(math.abs(mean - 0.25) < 0.02)
      local x = torch.Tensor(n):random(1, 3)
      assert.equal(1.0, x:min())
      assert.equal(3.0, x:max())
      assert.is_true(torch.IntTensor(100):random(5):max() <= 5)
   end)
end)

describe("Torch7's classes", function()
   it("are made with parents, constructors, factories and metamethods", function()
      local zoo = {}
      local Animal = torch.class("SpecAnimal", zoo)
      function Animal:__init(name) self.name = name end
      function Animal:hello() return "I am " .. self.name end
      function Animal:__call__(x) return self.name .. x end
      function Animal:__add__(other) return self.name .. other.name end
      local Dog, parent = torch.class("SpecDog", "SpecAnimal", zoo)
      function Dog:__init() parent.__init(self, "Rex") end
      local dog = zoo.SpecDog()
      assert.equal("I am Rex", dog:hello())
      assert.equal("Rex!", dog("!"))
      assert.equal("RexRex", dog + dog)
      assert.equal("SpecDog", torch.type(dog))
      assert.equal("SpecDog", torch.typename(dog))
      assert.is_nil(torch.typename {})
      assert.equal("table", torch.type {})
      assert.is_true(torch.isTypeOf(dog, "SpecAnimal"))
      assert.is_true(torch.isTypeOf(dog, zoo.SpecAnimal))
      assert.is_false(torch.isTypeOf(zoo.SpecAnimal "x", "SpecDog"))
      assert.is_nil(torch.factory "SpecDog"().name)
      assert.equal("SpecDog", torch.type(torch.setmetatable({}, "SpecDog")))
      -- a class of a program replaces the layer of the same name
      local nn = require "tlua.torch7.nn"
      local layer = nn.KLDCriterion
      finally(function() nn.KLDCriterion = layer end)
      torch.class("nn.KLDCriterion", "nn.Criterion").updateOutput = function() return 5 end
      assert.equal(5, nn.KLDCriterion():forward())
      assert.raises("the class nn.KLDCriterion exists",
         function() torch.class("nn.KLDCriterion", "nn.Criterion") end)
      assert.raises("the parent class nn.NoSuch does not exist",
         function() torch.class("nn.Tanh", "nn.NoSuch") end)
      assert.equal("nn.Tanh", torch.type(nn.Tanh()))
      assert.raises("torch.class: module: expected a table, got number",
         function() torch.class("SpecCat", "SpecAnimal", 5) end)
      assert.raises("the class SpecDog exists", function() torch.class("SpecDog", zoo) end)
      assert.raises("the parent class NoSuch does not exist", function() torch.class("SpecCat", "NoSuch", zoo) end)
   end)

   it("leave keys to the class if __index__ returns false", function()
      local zoo = {}
      local Bag = torch.class("SpecBag", zoo)
      function Bag:size() return 3 end
      function Bag:__index__(key)
         if type(key) == "number" then return key > 1 and key or nil, true end
         return false
      end
      local bag = zoo.SpecBag()
      assert.equal(3, bag:size())
      assert.equal(2, bag[2])
      assert.is_nil(bag[1])
      assert.is_nil(bag.colour)
   end)

   it("keep their own methods if a parent class gets __index__ later", function()
      local zoo = {}
      local Bag = torch.class("SpecOldBag", zoo)
      function Bag:size() return 3 end
      local Sack = torch.class("SpecOldSack", "SpecOldBag", zoo)
      function Sack:size() return 4 end
      function Bag:__index__(key) return key == "colour" and "red" or nil, key == "colour" end
      local sack = zoo.SpecOldSack()
      assert.equal(4, sack:size())
      assert.equal("red", sack.colour)
      assert.equal("red", zoo.SpecOldBag().colour)
   end)

   it("give pointers to elements, which count from 0", function()
      local x = torch.range(1, 6):resize(2, 3)
      local p, q = x:data(), x[2]:data()
      for i = 0, 5 do p[i] = p[i] * 2 end
      same({{2.0, 4.0, 6.0}, {8.0, 10.0, 12.0}}, x)
      assert.same({8.0, 6.0, 3, 8.0, 4.0}, {q[0], q[-1], q - p, (p + 3)[0], (q - 2)[0]})
      assert.is_true(p + 3 == q and p ~= q)
      assert.equal(12.0, x:storage():data()[5])
      assert.equal(255, torch.ByteTensor {255}:data()[0])
      assert.raises("data: index 3: expected a position inside of the storage, from -3 to 2",
         function() return q[3] end)
      assert.raises("data: expected an integer as an index, got x", function() return q.x end)
      assert.raises("data: expected a number as an element, got string", function() q[0] = "x" end)
      assert.raises("data: expected pointers to one storage",
         function() return p - torch.ones(1):data() end)
      for _, other in ipairs {2, "x", false} do
         assert.raises("data: expected pointers to one storage", function() return other - p end)
         if other ~= 2 then
            assert.raises("data: expected pointers to one storage", function() return p - other end)
         end
      end
   end)

   it("make tensors of their type by x.new(...)", function()
      local x = torch.FloatTensor {1, 2}
      assert.equal("torch.FloatTensor", x.new(2, 3):type())
      same({2, 3}, x.new(#torch.zeros(2, 3)):size())
      same({5.0}, x.new {5})
      assert.equal(0, x.new():nElement())
      x:new():fill(7)
      same({7.0, 7.0}, x)
      same({3}, x:new(3):size())
   end)

   it("count types of tensors", function()
      assert.is_true(torch.isTypeOf(torch.Tensor(1), "torch.DoubleTensor"))
      assert.is_true(torch.isTensor(torch.Tensor(1)))
      assert.is_true(torch.isStorage(torch.LongStorage(1)))
      torch.getmetatable("torch.DoubleTensor").specTwice = function(x) return x * 2 end
      assert.same({2.0}, torch.Tensor {1}:specTwice():totable())
      torch.getmetatable("torch.DoubleTensor").specTwice = nil
   end)
end)

it("Torch7's storages are lists of numbers, share memory with parts, and convert", function()
   local s = torch.IntStorage {1, 2, 3, 4}
   assert.equal(4, s:size())
   local part = torch.IntStorage(s, 2, 2)
   part:fill(9)
   assert.same({1, 9, 9, 4}, s:totable())
   assert.same({1.0, 9.0, 9.0, 4.0}, torch.DoubleStorage(4):copy(s):totable())
   assert.equal("blah\0", torch.CharStorage():string("blah\0"):string())
   assert.equal(6, #s:resize(6))
   assert.raises("expected a position from 1 to 6", function() return s[7] end)
end)
