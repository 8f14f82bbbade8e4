-- Tests Torch7's optim, image, nngraph, paths, xlua and `tlua --torch7`.

local torch = require "torch7"
local nn = require "tlua.torch7.nn"
local optim = require "tlua.torch7.optim"
local image = require "tlua.torch7.image"
local paths = require "tlua.torch7.paths"
local xlua = require "tlua.torch7.xlua"
local shell = require "spec.support.shell"

local function near(a, b, tolerance) assert.is_true(math.abs(a - b) <= tolerance, ("%s and %s"):format(a, b)) end

describe("The package class of Torch7's programs", function()
   local class = require "tlua.torch7.class"
   local Point = class("spec7.Point")
   function Point:__init(x) self.x = x end
   function Point:twice() return 2 * self.x end
   local Named = class.new("spec7.Named", "spec7.Point")
   function Named:name() return self.x .. "!" end

   it("makes objects of classes that inherit", function()
      local point, named = Point(3), Named.new(4)
      assert.equal(6, point:twice())
      assert.equal(8, named:twice())
      assert.equal("4!", named:name())
      assert.equal("spec7.Named", class.type(named))
      assert.equal("number", class.type(3))
      assert.is_true(class.istype(named, "spec7.Point") and not class.istype(point, "spec7.Named"))
      assert.is_false(class.istype(named, "spec7"))
      assert.is_nil(class.factory("spec7.Named").x)
      assert.equal(Point.twice, class.metatable("spec7.Point").twice)
   end)

   it("refuses a class that exists and a parent that does not", function()
      assert.raises("the class spec7.Point exists", function() class("spec7.Point") end)
      assert.raises("the parent class spec7.None does not exist", function() class("spec7.Other", "spec7.None") end)
      assert.raises("expected a class's name, got number", function() class(3) end)
   end)
end)

-- The expected values follow the examples of argcheck's README.
describe("The package argcheck of Torch7's programs", function()
   local argcheck = require "tlua.torch7.argcheck".argcheck
   local rules = {help = "Adds five.", {name = "x", type = "number", default = 0, help = "the age"},
      {name = "msg", type = "string", help = "a message"}}

   local function list(...) return {n = select("#", ...), ...} end

   it("takes arguments in order or by name, and gives defaults", function()
      local check = argcheck(rules)
      assert.same({n = 2, 4, "hello"}, list(check(4, "hello")))
      assert.same({n = 2, 0, "hello"}, list(check "hello"))
      assert.same({n = 2, 0, "hello"}, list(check(nil, "hello")))
      assert.same({n = 2, 7, "z"}, list(check {msg = "z", x = 7}))
      local optional = argcheck {{name = "a", type = "number"}, {name = "b", type = "number", defaulta = "a"},
         {name = "c", type = "table", defaultf = function() return {9} end}, {name = "d", type = "boolean", opt = true}}
      assert.same({n = 4, 1, 1, {9}}, list(optional(1)))
      assert.same({n = 4, 1, 2, {9}, false}, list(optional(1, 2, false)))
      assert.same({n = 4, 1, 1, {3}, true}, list(optional(1, {3}, true)))
      assert.same({n = 0}, list(argcheck {}()))
   end)

   it("refuses other arguments, and says which it takes", function()
      local check = argcheck(rules)
      local text = "Adds five.\n\n> arguments:\n{\n  [x   = number]  -- the age [default=0]\n"
         .. "   msg = string  -- a message\n}"
      assert.raises(text, function() check(4) end)
      assert.raises("invalid arguments: got (number, string, number)", function() check(4, "a", 3) end)
      assert.raises("invalid arguments: got (table)", function() check {msg = "a", y = 3} end)
      assert.raises("invalid arguments: got ()", function() check() end)
      local positive = argcheck {{name = "n", type = "number", check = function(n) return n > 0 end}}
      assert.equal(2, positive(2))
      assert.raises("invalid arguments: got (number)", function() positive(-2) end)
      assert.raises("rule 1: name: expected a string, got nil", function() argcheck {{type = "number"}} end)
      assert.raises("the type of x: expected a string, got nil", function() argcheck {{name = "x"}} end)
      assert.raises("two rules have the name x",
         function() argcheck {{name = "x", type = "*"}, {name = "x", type = "*"}} end)
      assert.raises("defaulta of x: there is no argument y",
         function() argcheck {{name = "x", type = "*", defaulta = "y"}} end)
      assert.raises("overload: expected a function of argcheck, got function",
         function() argcheck {overload = print} end)
      assert.raises("expected a table of rules, got nil", function() argcheck() end)
   end)

   it("calls functions, chooses among overloads, and takes objects", function()
      local of_number = argcheck({{name = "n", type = "number"}}, function(n) return n * 2 end)
      local of_both = argcheck {overload = of_number, {name = "t", type = "torch.*Tensor"},
         call = function(t) return t:sum() end}
      assert.equal(8, of_both(4))
      assert.equal(3, of_both(torch.ones(3)))
      assert.equal(3, of_both {t = torch.ones(3)})
      assert.raises("(string)", function() of_both "a" end)
      local method = argcheck {{name = "self", type = "table"}, {name = "k", type = "number"},
         call = function(self, k) return self.base + k end}
      local object = setmetatable({base = 10, at = method}, {})
      assert.equal(13, object:at(3))
      assert.equal(14, object:at {k = 4})
      local quiet = argcheck {quiet = true, {name = "x", type = "number"}}
      assert.same({n = 2, true, 3}, list(quiet(3)))
      assert.is_false((quiet "x"))
      assert.same({x = 3, y = 4}, argcheck {pack = true, {name = "x", type = "number"},
         {name = "y", type = "number", default = 4}}(3))
      assert.raises("(table)", function() argcheck {nonamed = true, {name = "x", type = "number"}} {x = 3} end)
      assert.raises("(number)", function() argcheck {noordered = true, {name = "x", type = "number"}}(3) end)
   end)
end)

-- The expected texts and values follow lua-cjson's manual.
describe("The package cjson of Torch7's programs", function()
   local cjson = require "tlua.torch7.cjson"

   it("writes tables with positions as arrays", function()
      assert.equal('{"a":3,"b":[1,2.5,true],"c":{},"d":[1,null,2],"e":{"20":1,"x":null}}',
         cjson.encode {a = 3.0, b = {1, 2.5, true}, c = {}, d = {[1] = 1, [3] = 2}, e = {[20] = 1, x = cjson.null}})
      assert.equal("null", cjson.encode(nil))
   end)

   it("reads values as plain tables", function()
      local read = cjson.decode '{"list": [1, null, {"s": "\\u00e9"}], "none": []}'
      assert.equal(1, read.list[1])
      assert.equal(cjson.null, read.list[2])
      assert.equal("é", read.list[3].s)
      assert.is_nil(getmetatable(read.list))
      assert.equal("{}", cjson.new().encode(read.none))
   end)

   it("refuses values without a JSON text and texts that are not JSON", function()
      local itself = {}
      itself[1] = itself
      for problem, value in pairs {
         ["JSON has no"] = 0 / 0, ["excessively sparse array"] = {[200] = 1}, ["a table contains itself"] = itself,
         ["a function"] = print, ["table key must be a number or string"] = {[print] = 1},
      } do
         assert.raises(problem, function() cjson.encode(value) end)
      end
      assert.raises("cjson.decode", function() cjson.decode "[1," end)
      assert.raises("expected a string, got number", function() cjson.decode(3) end)
   end)
end)

describe("Torch7's optim", function()
   -- minimises the quadratic x'Ax/2 - b'x, whose minimum is at (0.2, 0.4)
   local A, b = torch.Tensor {{3, 1}, {1, 2}}, torch.Tensor {1, 1}
   local function quadratic(x) return 0.5 * x:dot(A * x) - b:dot(x), A * x - b end

   for name, config in pairs {
      sgd = {learningRate = 0.1}, nag = {learningRate = 0.05}, adam = {learningRate = 0.1},
         adamax = {learningRate = 0.1},
      adagrad = {learningRate = 0.3}, rmsprop = {learningRate = 0.02, alpha = 0.9},
      rprop = {}, asgd = {eta0 = 0.1, lambda = 0}, cg = {}, lbfgs = {lineSearch = optim.lswolfe},
   } do
      it("finds a quadratic's minimum by " .. name, function()
         local x, loss = torch.zeros(2), nil
         for _ = 1, 150 do
            local same, losses = optim[name](quadratic, x, config)
            assert.equal(x, same)
            loss = losses[1]
         end
         near(0.2, x[1], 0.03)
         near(0.4, x[2], 0.03)
         near(-0.3, loss, 0.01)
      end)
   end

   it("takes the steps of the formulas", function()
      local function constant() return 0, torch.Tensor {2} end
      local x, state = torch.Tensor {1}, {}
      optim.sgd(constant, x, {learningRate = 0.1, learningRateDecay = 1}, state)
      near(0.8, x[1], 1e-12)
      optim.sgd(constant, x, {learningRate = 0.1, learningRateDecay = 1}, state)
      near(0.7, x[1], 1e-12)
      x, state = torch.Tensor {1}, {}
      for _ = 1, 2 do optim.sgd(constant, x, {learningRate = 0.1, momentum = 0.5, dampening = 0}, state) end
      near(1 - 0.2 - 0.3, x[1], 1e-12)
      x = torch.Tensor {1}
      optim.sgd(constant, x, {learningRate = 0.1, weightDecay = 0.5})
      near(1 - 0.25, x[1], 1e-12)
      x = torch.Tensor {1}
      optim.adam(constant, x, {learningRate = 0.1})
      near(0.9, x[1], 1e-6)
      x = torch.Tensor {1}
      optim.adadelta(constant, x, {rho = 0.75, eps = 1})
      near(1 - 2 / math.sqrt(0.25 * 4 + 1), x[1], 1e-12)
      x = torch.Tensor {1}
      optim.adagrad(constant, x, {learningRate = 0.1})
      near(0.9, x[1], 1e-6)
      x = torch.Tensor {1}
      optim.rmsprop(constant, x, {learningRate = 0.1, alpha = 0.75})
      near(0.8, x[1], 1e-6)
   end)

   it("minimises without gradients", function()
      torch.manualSeed(1)
      local function loss(x) return (x - 1):pow(2):sum() end
      local x = optim.de(loss, torch.zeros(2), {maxFEval = 3000})
      near(0, loss(x), 1e-3)
      x = optim.cmaes(loss, torch.zeros(3), {maxEval = 2000})
      near(0, loss(x), 1e-6)
   end)

   it("minimises a sum of losses by proximal steps", function()
      -- |x - 3|^2 / 2 + |x| has its minimum at 2
      local x = optim.FistaLS(function(v, mode)
         local d = v - 3
         return 0.5 * d:dot(d), mode and d or nil
      end, function(v) return v:clone():abs():sum() end, function(v, L)
         v:copy(torch.sign(v):cmul(torch.abs(v):add(-1 / L):clamp(0, 1e9)))
      end, torch.zeros(1), {maxiter = 200, errthres = 1e-12, L = 1})
      near(2, x[1], 1e-4)
   end)

   it("interpolates, and checks gradients", function()
      near(1, optim.polyinterp(torch.Tensor {{0, 1, -2}, {3, 4, 4}}), 1e-6)
      assert.is_true((optim.checkgrad(quadratic, torch.rand(2))) < 1e-6)
   end)

   it("keeps the fields of states that Torch7's have", function()
      for name, fields in pairs {sgd = "dfdx evalCounter", adam = "denom m t v", rmsprop = "m tmp",
         adagrad = "evalCounter paramStd paramVariance", adamax = "m t u", nag = "dfdx evalCounter",
         adadelta = "accDelta delta evalCounter paramStd paramVariance", asgd = "ax eta_t mu_t t"} do
         local state, x = {}, torch.Tensor {3, -2}
         for _ = 1, 2 do optim[name](quadratic, x, {momentum = name == "sgd" and 0.9 or nil}, state) end
         local names = {}
         for key in pairs(state) do names[#names + 1] = key end
         table.sort(names)
         assert.equal(fields, table.concat(names, " "))
      end
   end)

   it("counts confusions", function()
      local matrix = optim.ConfusionMatrix {"cat", "dog"}
      matrix:add(1, 1)
      matrix:add(torch.Tensor {0.9, 0.1}, 2)
      matrix:batchAdd(torch.Tensor {2, 2}, torch.Tensor {2, 2})
      matrix:updateValids()
      assert.same({{1.0, 0.0}, {1.0, 2.0}}, matrix.mat:totable())
      near(3 / 4, matrix.totalValid, 1e-6)
      near((1 + 2 / 3) / 2, matrix.averageValid, 1e-6)
      near((1 / 2 + 2 / 3) / 2, matrix.averageUnionValid, 1e-6)
      near((1 * 2 - 1 * 0) / math.sqrt(2 * 1 * 3 * 2), matrix:matthewsCorrelation()[1], 1e-6)
      assert.equal("ConfusionMatrix:\n[[       1       0]   100.000% \t[class: cat]\n"
         .. " [       1       2]]  66.667% \t[class: dog]\n + average row correct: 83.333333333333% \n"
         .. " + average rowUcol correct (VOC measure): 58.333333333333% \n + global correct: 75%", tostring(matrix))
      assert.raises("expected classes from 1 to 2", function() matrix:add(3, 1) end)
      assert.raises("ConfusionMatrix:add: prediction: expected a class or the scores",
         function() matrix:add(nil, 1) end)
      -- a batch with a wrong class changes nothing
      assert.raises("expected classes from 1 to 2, got 2 for 7",
         function() matrix:batchAdd(torch.Tensor {1, 2}, torch.Tensor {1, 7}) end)
      assert.raises("batchAdd: targets: expected 2, as predictions, got 1",
         function() matrix:batchAdd(torch.Tensor {1, 2}, torch.Tensor {1}) end)
      assert.equal(4, matrix.mat:sum())
      assert.raises("ConfusionMatrix: nclasses: expected a number of classes", function() optim.ConfusionMatrix(-1) end)
      assert.matches("  nan%% \t%[class: dog%]", tostring(optim.ConfusionMatrix {"cat", "dog"}))
   end)

   it("logs columns", function()
      local path = os.tmpname()
      local logger = optim.Logger(path)
      logger:setNames {"loss", "error"}
      logger:add {1.5, 0.25}
      logger:add {loss = 1, error = 0}
      assert.raises("optim.Logger:add: the value of error is missing", function() logger:add {loss = 1} end)
      assert.equal(2, #logger.symbols[1]) -- a row with a missing value is not added in part
      assert.raises('Logger:add: row: expected a table of values, got "x"', function() logger:add "x" end)
      logger:style {"+-", "-"}
      assert.same({"+-", "-"}, logger.styles)
      assert.equal("loss\terror\t\n 1.5000e+00\t 2.5000e-01\t\n 1.0000e+00\t 0.0000e+00\t\n", shell.read(path))
      if require "tlua".has "utils.plot" then
         logger:plot()
         assert.matches("^<svg ", (shell.read(path .. ".svg")))
         os.remove(path .. ".svg")
      end
      os.remove(path)
   end)
end)

it("Torch7's nngraph makes modules of graphs", function()
   require "tlua.torch7.nngraph"
   local input = nn.Identity()()
   local left = nn.Linear(3, 2)(input):annotate {name = "left"}
   local sum = nn.CAddTable()({left, input - nn.Linear(3, 2) - nn.Tanh()})
   local model = nn.gModule({input}, {sum, left})
   local x = torch.randn(2, 3)
   local out = model:forward(x)
   assert.equal(2, #out)
   local g = {torch.randn(2, 2), torch.randn(2, 2)}
   model:zeroGradParameters()
   local gradInput = model:backward(x, g):clone()
   local along, h = torch.randn(2, 3), 1e-6
   local function loss(step)
      local y = model:forward(torch.add(x, step, along))
      return y[1]:clone():cmul(g[1]):sum() + y[2]:clone():cmul(g[2]):sum()
   end
   near((loss(h) - loss(-h)) / (2 * h), gradInput:cmul(along):sum(), 1e-6)
   assert.equal(4, #model:parameters())
   local dot = require "tlua.torch7.nngraph".graph.dot
   assert.matches("label=\"%d: left\"", dot(model))
   assert.equal(dot(model), dot(model.fg))
   assert.matches("n1 %-> n2;", dot(model.fg, "title"))
   assert.matches("n2 %-> n1;", dot(model.bg))
   assert.raises("graph.dot: expected a gModule", function() dot(3) end)
   assert.raises("leads to no output", function() nn.gModule({nn.Identity()()}, {sum}) end)
end)

describe("Torch7's image", function()
   it("changes sizes, parts and colours", function()
      local x = torch.range(1, 8):resize(1, 2, 4)
      assert.same({{{3.0, 4.0}, {7.0, 8.0}}}, image.crop(x, 2, 0, 4, 2):totable())
      assert.same({{{3.0, 4.0}, {7.0, 8.0}}}, image.crop(x, 2.5, -0.5, 4.5, 2):totable())
      assert.same({{{2.0, 3.0}, {6.0, 7.0}}}, image.crop(x, "c", 2, 2):totable())
      assert.same({{{4.0, 3.0, 2.0, 1.0}, {8.0, 7.0, 6.0, 5.0}}}, image.hflip(x):totable())
      assert.same({{{5.0, 6.0, 7.0, 8.0}, {1.0, 2.0, 3.0, 4.0}}}, image.vflip(x):totable())
      assert.same({{{0.0, 1.0, 2.0, 3.0}, {0.0, 5.0, 6.0, 7.0}}}, image.translate(x, 1, 0):totable())
      assert.same({{{0.0, 1.0, 2.0, 3.0}, {0.0, 5.0, 6.0, 7.0}}}, image.translate(x, 1.5, -0.5):totable())
      assert.same({1, 4, 8}, image.scale(x, 8, 4):size():totable())
      assert.same({1, 1, 2}, image.scale(x, "*0.5", "simple"):size():totable())
      assert.same({1, 3, 6}, image.scale(x, 6):size():totable())
      local rgb = torch.rand(3, 3, 4)
      for _, name in ipairs {"hsv", "hsl", "lab"} do
         local back = image[name .. "2rgb"](image["rgb2" .. name](rgb))
         assert.is_true((back - rgb):abs():max() < 1e-6, name)
      end
      assert.same({0.0, 1.0, 1.0}, image.rgb2hsv(torch.Tensor {{{1}}, {{0}}, {{0}}}):view(-1):totable())
      assert.same({0.0, 1.0, 0.5}, image.rgb2hsl(torch.Tensor {{{1}}, {{0}}, {{0}}}):view(-1):totable())
      near(0.587, image.rgb2y(torch.Tensor {{{0}}, {{1}}, {{0}}})[1][1][1], 1e-9)
      local turned = image.rotate(torch.Tensor {{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}}, math.pi / 2)
      assert.same({{{3.0, 6.0, 9.0}, {2.0, 5.0, 8.0}, {1.0, 4.0, 7.0}}}, turned:totable())
      local flow = torch.zeros(2, 3, 3)
      flow[2]:fill(1)
      assert.equal(2.0, image.warp(torch.Tensor {{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}}, flow)[1][1][1])
      assert.same({{4.0}}, image.convolve(torch.ones(2, 2), torch.ones(2, 2)):totable())
      assert.equal(1.0, image.gaussian(3)[2][2])
      assert.same({0.0, 0.5, 1.0}, image.minmax {tensor = torch.Tensor {1, 2, 3}}:totable())
      assert.same({1, 5, 2}, image.toDisplayTensor {input = torch.rand(2, 1, 2, 2), nrow = 1,
         padding = 1}:size():totable())
   end)

   it("reads and writes files", function()
      local x = torch.Tensor {{{0, 1}, {0.2, 0.4}}, {{1, 0}, {0.6, 0.8}}, {{0, 0}, {1, 1}}}
      for _, ending in ipairs {"png", "ppm"} do
         local path = os.tmpname() .. "." .. ending
         image.save(path, x)
         assert.is_true((image.load(path) - x):abs():max() < 1e-9, ending)
         assert.equal("torch.ByteTensor", image.load(path, 3, "byte"):type())
         assert.equal(1, image.load(path, 1):size(1))
         os.remove(path)
      end
      assert.raises("image.load: ", function() image.load "/no/such.png" end)
   end)
end)

describe("Torch7's paths and xlua", function()
   it("join, split and list", function()
      assert.equal("/a/c", paths.concat("/a", "b", "..", "c"))
      assert.equal("/c", paths.concat("/a", "/c"))
      assert.equal("/a/3", paths.concat("/a", 3))
      assert.equal("file", paths.basename("/x/file.lua", "lua"))
      assert.equal("/x", paths.dirname "/x/file.lua")
      assert.equal("lua", paths.extname "/x/file.lua")
      shell.with_folder(function(folder)
         assert.is_true(paths.mkdir(folder .. "/a/b"))
         assert.is_true(paths.dirp(folder .. "/a"))
         assert.is_false(paths.filep(folder .. "/a"))
         assert.is_nil(paths.dir(folder .. "/none"))
         local seen = {}
         for name in paths.iterdirs(folder) do seen[#seen + 1] = name end
         assert.same({"a"}, seen)
         assert.is_true(paths.rmall(folder .. "/a", "yes"))
         assert.is_false(paths.dirp(folder .. "/a"))
      end)
   end)

   it("refuse arguments that are not strings or numbers", function()
      for _, name in ipairs {"basename", "dirname", "extname", "dirp", "filep", "dir", "files", "iterfiles", "iterdirs",
         "mkdir", "rmdir"} do
         assert.raises("paths." .. name .. ": path: expected a string, got nil", function() paths[name]() end)
      end
      assert.raises("paths.concat: argument 2: expected a string, got nil", function() paths.concat("a", nil, "b") end)
      assert.raises("paths.findprogram: argument 1: expected a string, got 5", function() paths.findprogram(5) end)
      assert.raises("paths.files: filter: expected a pattern or a function, got 5", function() paths.files(".", 5) end)
      local sys = require "tlua.torch7.sys"
      assert.raises("sys.execute: command: expected a string, got nil", function() sys.execute() end)
      assert.raises("sys.sleep: seconds: expected a number, got nil", function() sys.sleep() end)
      assert.raises("sys.usleep: microseconds: expected a number, got nil", function() sys.usleep() end)
      assert.raises("sys.split: text: expected a string, got 5", function() sys.split(5, ",") end)
      assert.same({"a", "", "b"}, sys.split(",a,,b,", ","))
      assert.raises("xlua.progress: at: expected a finite number, got nil", function() xlua.progress(nil, 2) end)
      assert.raises("xlua.progress: total: expected a finite number, got inf", function() xlua.progress(1, 1 / 0) end)
      local options = xlua.OptionParser()
      assert.raises("OptionParser:parse: expected a list of arguments, got number", function() options:parse(5) end)
      assert.raises("OptionParser:parse: argument 1: expected a string, got number", function() options:parse {5} end)
      local gnuplot = require "tlua.torch7.gnuplot"
      assert.raises("gnuplot.hist: expected a tensor, got nil", function() gnuplot.hist() end)
      assert.raises("gnuplot.imagesc: expected a tensor, got table", function() gnuplot.imagesc {} end)
      assert.raises("class.istype: name: expected a string, got nil",
         function() require "tlua.torch7.class".istype(setmetatable({}, {})) end)
   end)

   it("take arguments by name", function()
      local args, x, n = xlua.unpack({{x = 3}}, "f", "help", {arg = "x", type = "number", req = true},
         {arg = "n", default = 5})
      assert.same({x = 3, n = 5}, args)
      assert.equal(3, x)
      assert.equal(5, n)
      assert.raises("f: expected the argument x", function() xlua.unpack({}, "f", "help", {arg = "x", req = true}) end)
   end)
end)

describe("tlua --torch7", function()
   local function run(script) return shell.ok(("%s --torch7 -e %s"):format(shell.tlua, shell.quote(script))) end

   it("has Torch7's packages as globals and for require", function()
      assert.equal("torch.DoubleTensor\tnn.Linear\tfunction\ttrue\ttrue\ttrue\n", run [[
         print(torch.Tensor(1):type(), torch.type(nn.Linear(1, 1)), type(optim.sgd), require "nn" == nn,
            require "torch" == torch, image ~= nil and paths ~= nil and xlua ~= nil and unpack == table.unpack)]])
   end)

   it("leaves tlua's names to programs that do not ask for it", function()
      assert.equal("float32\tnil\n", shell.ok(("%s -e %s"):format(shell.tlua,
         shell.quote [[local t = require "torch7" print(torch.ones(1).dtype, rawget(_G, "xlua"))]])))
   end)
end)

it("nn.StochasticGradient trains with each example in turn", function()
   torch.manualSeed(1)
   local data = {size = function() return 4 end}
   for i, pair in ipairs {{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 2}} do
      data[i] = {torch.Tensor {pair[1], pair[2]}, torch.Tensor {pair[3]}}
   end
   local model = nn.Sequential():add(nn.Linear(2, 1))
   local trainer, errors = nn.StochasticGradient(model, nn.MSECriterion()), {}
   trainer.maxIteration, trainer.learningRate, trainer.verbose = 60, 0.1, false
   trainer.hookIteration = function(_, _, loss) errors[#errors + 1] = loss end
   trainer:train(data)
   assert.equal(60, #errors)
   assert.is_true(errors[60] < 1e-3)
   near(2, model:forward(torch.Tensor {1, 1})[1], 0.05)
end)
