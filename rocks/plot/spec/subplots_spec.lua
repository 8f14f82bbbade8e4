-- Tests figures whose functions have matplotlib's names. Counts of bins, quartiles and contours are compared with
-- NumPy's results and with values computed by hand. Pictures are compared by their shapes.
local torch = require "tlua"
local contours = require "tlua.plot.contours"
local colours = require "tlua.plot.colours"
local shell = require "spec.support.shell"
local plot = torch.utils.plot

local nan, inf = 0 / 0, 1 / 0

-- Returns the shapes of a kind that the artists of the axes add to the canvas. The shapes of the frame are excluded.
local function shapes(figure, kind)
   local list = {}
   for _, shape in ipairs(require("tlua.plot.panels").canvas(figure).shapes) do
      if shape.kind == kind and shape.style.clip then list[#list + 1] = shape end
   end
   return list
end

local function texts(figure)
   local set = {}
   for _, shape in ipairs(require("tlua.plot.panels").canvas(figure).shapes) do
      if shape.kind == "text" then set[shape.text] = shape end
   end
   return set
end

describe("plot.subplots", function()
   it("returns axes as one, as a list, or as a list of rows", function()
      local _, one = plot.subplots()
      assert.equal("utils.plot.Axes", torch.type(one))
      assert.equal(3, #select(2, plot.subplots(1, 3)))
      assert.equal(3, #select(2, plot.subplots(3)))
      local _, rows = plot.subplots {nrows = 2, ncols = 3}
      assert.same({2, 3}, {#rows, #rows[1]})
   end)

   it("writes SVG and PNG of the requested size", shell.in_folder(function(folder)
      local figure, ax = plot.subplots {figsize = {3, 2}}
      ax:plot {1, 3, 2}
      figure:savefig(folder .. "/x.svg"):save(folder .. "/x.png")
      assert.matches('^<svg [^>]*width="300" height="200"', shell.read(folder .. "/x.svg"))
      local width, height = (">I4I4"):unpack(shell.read(folder .. "/x.png"), 17)
      assert.same({300, 200}, {width, height})
   end))

   it("writes XML that a parser takes", function()
      if select(2, shell.run "python3 -c 'import xml.dom.minidom'") ~= 0 then return pending "needs Python" end
      local figure, ax = plot.subplots()
      ax:plot({1, 2}, {label = "<a & b> \"c\"\1"}):legend():set_title "x < y & z"
      shell.with_folder(function(folder)
         figure:save(folder .. "/x.svg")
         local script = "import xml.dom.minidom, sys; xml.dom.minidom.parse(sys.argv[1])"
         shell.ok(("python3 -c '%s' %s/x.svg"):format(script, folder))
      end)
   end)

   it("lists the contents of a figure as text", function()
      local figure, ax = plot.subplots()
      ax:plot({1, 2}, {label = "loss"}):set_title "training"
      assert.matches("1: training, 1 shown: loss", tostring(figure), 1, true)
   end)
end)

describe("plot.Axes", function()
   local figure, ax
   before_each(function() figure, ax = plot.subplots() end)

   it("draws a line through its points, with gaps", function()
      ax:plot({1, 2, 3, 4, 5, 6}, {1, 2, nan, 1, inf, 3})
      local lines = shapes(figure, "line")
      assert.equal(1, #lines) -- a point without neighbours that can be drawn has no line
      assert.equal(4, #lines[1].points)
      ax:set_xlim(0, 10):set_ylim(0, 4)
      local points = shapes(figure, "line")[1].points
      local clip = shapes(figure, "line")[1].style.clip
      local function share(x) return (x - clip[1]) / (clip[3] - clip[1]) end
      assert.is_true(math.abs(share(points[1]) - 0.1) < 1e-9 and math.abs(share(points[3]) - 0.2) < 1e-9)
      assert.is_true(math.abs((clip[4] - points[2]) / (clip[4] - clip[2]) - 0.25) < 1e-9)
   end)

   it("draws nothing for no values, and a marker for one", function()
      ax:plot {}
      assert.equal(0, #shapes(figure, "line"))
      ax:plot({5}, {marker = "o"})
      assert.equal(0, #shapes(figure, "line"))
      assert.equal(1, #shapes(figure, "area"))
   end)

   it("spaces powers of ten equally on a logarithmic axis, and omits values that are not above zero", function()
      ax:loglog({1, 10, 100, 1000}, {0, 1e-2, -5, 1e2}, {marker = "s"})
      assert.equal(2, #shapes(figure, "area"))
      local marks = texts(figure)
      local a, b, c = marks["1e0"], marks["1e1"], marks["1e2"]
      assert.is_true(math.abs((b.x - a.x) - (c.x - b.x)) < 1e-6)
   end)

   it("counts the values of a histogram as NumPy does", function()
      -- These counts and edges are the result of numpy.histogram([1, 2, 2, 3, 4, 4, 4, 5], bins=4).
      local counts, edges = ax:hist({1, 2, 2, 3, 4, 4, 4, 5}, {bins = 4})
      assert.same({1, 2, 1, 4}, counts)
      assert.same({1, 2, 3, 4, 5}, edges)
      -- These values are the result of numpy.histogram(..., bins=[0, 2, 4], density=True).
      assert.same({1 / 8, 3 / 8}, (ax:hist({1, 2, 2, 3, 9, -1}, {bins = {0, 2, 4}, density = true})))
      assert.same({0, 2}, (ax:hist({nan, 3, inf, 4}, {bins = 2, range = {0, 4}})))
      assert.same({0, 0}, (ax:hist({}, {bins = 2})))
      assert.same({1}, (ax:hist({7}, {bins = 1})))
      local random = ax:hist(torch.randn(100000), {bins = 1000})
      local sum = 0
      for _, count in ipairs(random) do sum = sum + count end
      assert.equal(100000, sum)
   end)

   it("draws boxes at NumPy's quartiles, and whiskers within 1.5 times the quartiles' distance", function()
      ax:boxplot {{1, 2, 3, 4, 5, 6, 7, 30}}
      -- The results of numpy.percentile(..., [25, 50, 75]) are 2.75, 4.5 and 6.25. The whisker ends at 7, and the value
      -- 30 lies beyond it.
      local box = ax.artists[1].boxes[1]
      assert.same({2.75, 4.5, 6.25, 1, 7, {30}}, {box.q1, box.median, box.q3, box.low, box.high, box.fliers})
      ax:boxplot(torch.randn(20, 3), {labels = {"a", "b", "c"}})
      assert.equal(3, #ax.artists[2].boxes)
      ax:boxplot {{}, {1}}
   end)

   it("draws bars from their bottoms, with names as marks", function()
      ax:bar({"cat", "dog"}, {2, 4}, {yerr = {0.5, 1}})
      local bars = shapes(figure, "area")
      assert.equal(2, #bars)
      local function high(bar) return bar.points[6] - bar.points[2] end
      assert.is_true(math.abs(high(bars[2]) - 2 * high(bars[1])) < 1e-6)
      assert.equal(6, #shapes(figure, "line")) -- each of the two error bars has a line and two end lines
      assert.is_truthy(texts(figure).cat)
   end)

   it("shows a matrix with row 1 at the top, or at the bottom, and NaN as white", function()
      local image = ax:imshow({{0, 1}, {nan, inf}}, {cmap = "gray"})
      local cells = shapes(figure, "image")[1].cells
      assert.same({{0, 0xFFFFFF}, {-1, 0xFFFFFF}}, cells)
      figure:colorbar(image, {label = "weight"})
      assert.is_truthy(texts(figure).weight)
      figure, ax = plot.subplots()
      ax:imshow({{0, 1}, {1, 1}}, {cmap = "gray_r", origin = "lower", aspect = "auto"})
      assert.same({{0, 0}, {0xFFFFFF, 0}}, shapes(figure, "image")[1].cells)
      figure, ax = plot.subplots()
      ax:imshow({{1, 10, 100, 0}}, {cmap = "gray", norm = "log"})
      assert.same({0, 0x808080, 0xFFFFFF, -1}, shapes(figure, "image")[1].cells[1])
   end)

   it("reduces large images and long lines to the resolution of the picture", function()
      ax:imshow(torch.rand(3000, 2000))
      assert.is_true(#figure:svg() < 3e6)
      figure, ax = plot.subplots()
      ax:plot(torch.randn(300000))
      local points = shapes(figure, "line")[1].points
      assert.is_true(#points < 10 * 640)
      local low, high = inf, -inf
      for i = 2, #points, 2 do low, high = math.min(low, points[i]), math.max(high, points[i]) end
      local clip = shapes(figure, "line")[1].style.clip
      local height = clip[4] - clip[2]
      -- The smallest and the largest value are still drawn. The margins between them and the frame are 5 % of the
      -- height.
      assert.is_true(math.abs((high - low) / height - 1 / 1.1) < 1e-6)
   end)

   it("finds the contours of a plane and of a paraboloid", function()
      local rows = {{1, 2, 3}, {1, 2, 3}, {1, 2, 3}}
      assert.same({{1.5, 1, 1.5, 2, 1.5, 3}}, contours.lines(rows, 1.5))
      assert.same({}, contours.lines(rows, 5))
      -- The heights are equal on a circle of radius 1.5 around the middle. So the line must be closed, and near this
      -- circle.
      local round = {}
      for i = 1, 21 do
         round[i] = {}
         for j = 1, 21 do round[i][j] = ((i - 11) / 5) ^ 2 + ((j - 11) / 5) ^ 2 end
      end
      local lines = contours.lines(round, 1.5 ^ 2)
      assert.equal(1, #lines)
      local line = lines[1]
      assert.same({line[1], line[2]}, {line[#line - 1], line[#line]})
      for i = 1, #line, 2 do
         local r = (((line[i] - 11) / 5) ^ 2 + ((line[i + 1] - 11) / 5) ^ 2) ^ 0.5
         assert.is_true(math.abs(r - 1.5) < 0.01)
      end
      assert.equal(1, #contours.lines({{1, 1, nan}, {2, 2, 2}, {3, 3, 3}}, 1.5))
      assert.equal(2, contours.height({{1, 3}, {1, 3}}, 1.5, 1.2))
   end)

   it("draws contours and filled contours in axes", function()
      local x, y = torch.linspace(-1, 1, 11), torch.linspace(0, 2, 9)
      local z = x:view(1, 11) + y:view(9, 1)
      ax:contour(x, y, z, {levels = {0, 1}})
      assert.equal(2, #shapes(figure, "line"))
      figure:colorbar(ax:contourf(x, y, z, {levels = 4}))
      local cells = shapes(figure, "image")[1].cells
      local seen = {}
      for _, row in ipairs(cells) do
         for _, rgb in ipairs(row) do seen[rgb] = true end
      end
      local count = 0
      for _ in pairs(seen) do count = count + 1 end
      assert.equal(4, count)
      ax:contour(torch.ones(3, 3)) -- a constant surface has no contours
   end)

   it("has contours at round heights", function()
      local function levels(low, high, n)
         return ax:contour({{low, high}, {low, high}}, {levels = n}).levels
      end
      assert.same({0, 1, 2, 3, 4}, levels(0, 4, 4))
      assert.same({0, 2.5, 5, 7.5, 10}, levels(0.1, 9.7, 4))
      assert.same({-20, 0, 20, 40}, levels(-3, 37, 3))
      assert.same({2.5, 3.5}, levels(3, 3, 8))
   end)

   it("draws points in space, the nearer ones last", function()
      local space, axes = plot.subplots {projection = "3d"}
      axes:view_init(0, 0) -- the points are seen from the positive end of the x axis
      local points = axes:scatter3D({1, 2, nan}, {0, 0, 0}, {0, 0, 0}, {c = {0, 1, 2}, cmap = "gray"})
      space:colorbar(points)
      local areas = shapes(space, "area")
      assert.equal(2, #areas)
      assert.same({0, 0x808080}, {areas[1].style.colour, areas[2].style.colour})
      axes:plot3D({0, 1}, {0, 1}, {0, 1}):set_zlabel "z"
      assert.equal(1, #shapes(space, "line"))
   end)

   it("fills between curves, writes notes and a legend", function()
      ax:fill_between({1, 2, nan, 4, 5}, {1, 1, 1, 1, 1}, 0, {alpha = 0.5, label = "band"})
      assert.equal(2, #shapes(figure, "area"))
      ax:annotate("here", {1, 1}, {xytext = {2, 0.5}}):text(4, 0.5, "there"):axhline(0.5):axvline(2):legend()
      local written = texts(figure)
      assert.is_truthy(written.here and written.there and written.band)
      assert.equal(2, #shapes(figure, "line"))
   end)

   it("draws the same shapes into PNG", function()
      local small, axes = plot.subplots {figsize = {2, 2}}
      axes:fill_between({0, 1}, 1, 0, {color = "#ff0000"}):set_xlim(0, 1):set_ylim(0, 1)
      shell.with_folder(function(folder)
         small:save(folder .. "/x.png")
         local image = torch.load(folder .. "/x.png")
         assert.same({3, 200, 200}, {table.unpack(image.shape)})
         assert.same({255, 0, 0}, image[{{}, 80, 120}]:tolist())
         assert.same({255, 255, 255}, image[{{}, 3, 3}]:tolist())
      end)
   end)

   it("knows colours by name, by number and by parts", function()
      local function parse(value) return colours.parse("f", "color", value) end
      assert.same({0xE00000, 0x1F77B4, 0xABCDEF, 0x808080, 0xFF0080}, {parse "red", parse "C0", parse "#abcdef",
         parse "0.5", parse {1, 0, 0.5}})
      local map = colours.map("f", "viridis")
      assert.same({0x440154, 0xFDE725, 0xFDE725}, {map(0), map(1), map(2)})
      assert.equal(0xFDE725, colours.map("f", "viridis_r")(0))
   end)

   it("counts numbers whose distance is infinite, and draws very many bars as columns", function()
      local wide, at = plot.subplots()
      local counts, edges = at:hist({-1.7e308, 0, 1.7e308}, {bins = 2})
      assert.same({1, 2}, counts) -- as in numpy.histogram, a value at an edge belongs to the bin above the edge
      assert.same({-1.7e308, 0, 1.7e308}, edges)
      assert.is_nil(wide:svg():find("nan", 1, true))
      local figure_of_many, many = plot.subplots()
      local list = {}
      for i = 1, 20000 do list[i] = i end
      list[20001] = 10000 -- these values fall into one bin
      many:hist(list, {bins = 20000})
      local boxes, highest, lowest = shapes(figure_of_many, "area"), 1e9, 0
      for _, box in ipairs(boxes) do
         highest, lowest = math.min(highest, box.points[2]), math.max(lowest, box.points[2])
      end
      assert.is_true(#boxes > 100 and #boxes <= figure_of_many.width)
      assert.is_true(highest < lowest)
   end)

   it("stays unchanged if a call fails", function()
      local _, axes = plot.subplots()
      assert.is_false((pcall(axes.plot, axes, {1, 2}, {marker = "q"})))
      assert.is_false((pcall(axes.scatter, axes, {1}, {1}, {marker = "q"})))
      assert.equal(0, axes.lines) -- the next line has the first colour
      local ok, message = pcall(axes.loglog, axes, {"a"})
      assert.is_false(ok)
      assert.matches('Axes.loglog: y, value 1: expected a number, got "a"', message, 1, true)
      assert.same({x = "linear", y = "linear"}, axes.scale)
      assert.is_false((pcall(axes.bar, axes, {"a", "b"}, {1, 2, 3})))
      assert.is_nil(axes.names)
      assert.is_nil(axes.ticks.x)
      axes:bar({"c"}, {1})
      assert.same({"c"}, axes.names)
      assert.equal(1, axes.lines)
   end)

   it("refuses wrong values, and names the argument", function()
      local function refuses(message, fn)
         local ok, text = pcall(fn, ax)
         assert.is_false(ok)
         assert.matches(message, text, 1, true)
         assert.matches("^%S*subplots_spec.lua:%d+: ", text) -- the error is reported at the user's line
      end
      refuses("utils.plot.Axes.plot: expected as many x as y, got 2 and 1", function(a) a:plot({1, 2}, {1}) end)
      refuses('plot: y, value 1: expected a number, got "a"', function(a) a:plot {"a"} end)
      refuses('color: unknown colour "rde"; did you mean red?', function(a) a:plot({1}, {color = "rde"}) end)
      refuses('linestyle: expected "-"', function(a) a:plot({1}, {linestyle = "~"}) end)
      refuses("unknown option labl; did you mean label?", function(a) a:plot({1}, {labl = "x"}) end)
      refuses("hist: x, value 2: expected a finite number, or range", function(a) a:hist {1, nan} end)
      refuses("hist: bins: expected an integer from 1 to 100000", function(a) a:hist({1}, {bins = 0}) end)
      refuses("hist: range: expected two numbers, the lower one first", function(a) a:hist({1}, {range = {2, 1}}) end)
      refuses("boxplot: x, list 1, value 2: expected a finite number, got inf", function(a) a:boxplot {{1, inf}} end)
      refuses("imshow: X: expected a real matrix of at least 1 x 1", function(a) a:imshow(torch.zeros(0, 3)) end)
      refuses('cmap: unknown map "virdis"; did you mean viridis?', function(a) a:imshow({{1}}, {cmap = "virdis"}) end)
      refuses("vmin: expected more than 0 with norm", function(a) a:imshow({{1}}, {norm = "log", vmin = -1}) end)
      refuses("contour: Z: expected a real matrix of at least 2 x 2", function(a) a:contour {{1}} end)
      refuses("contour: X, value 2: expected finite numbers in rising order",
         function(a) a:contour({1, 1}, {1, 2}, {{1, 2}, {3, 4}}) end)
      refuses("levels, value 2: expected more than the one before", function(a) a:contour({{1, 2}, {3, 4}},
         {levels = {2, 1}}) end)
      refuses("errorbar: yerr, value 1: expected a number of at least 0",
         function(a) a:errorbar({1}, {1}, {yerr = {-1}}) end)
      refuses("scatter: c: expected 2 values, got 4", function(a) a:scatter({1, 2}, {1, 2}, {c = {1, 2, 3, 4}}) end)
      refuses('expected axes with projection = "3d"', function(a) a:scatter3D({1}, {1}, {1}) end)
      refuses("scatter: s, value 1: expected a number of at least 0, got -1",
         function(a) a:scatter({1}, {1}, {s = -1}) end)
      refuses("set_xticks: labels, value 1: expected a text, got nil",
         function(a) a:set_xticks({1, 2}, {nil, "b"}) end)
      refuses("boxplot: labels, value 1: expected a text, got nil",
         function(a) a:boxplot({{1}, {2}}, {labels = {nil, "b"}}) end)
      refuses("boxplot: x, list 2: expected a list of numbers", function(a) a:boxplot {{1}, nil, {3}} end)
      refuses("bar: x, value 2: expected a string, as before, got nil", function(a) a:bar({"a", nil, "c"}, 1) end)
      refuses("view_init: azim: expected a finite number, got inf",
         function() select(2, plot.subplots {projection = "3d"}):view_init(3, inf) end)
      refuses("set_xlim: expected two different finite numbers", function(a) a:set_xlim(1, 1) end)
      refuses('set_xscale: scale: expected "linear" or "log"', function(a) a:set_xscale "lgo" end)
      refuses("set_ylim: expected numbers above 0 on a logarithmic axis",
         function(a) a:set_yscale("log"):set_ylim(-1, 2) end)
      refuses("annotate: xy: expected {x, y}", function(a) a:annotate("x", {1}) end)
      refuses("colorbar: mappable: expected the result of imshow", function() figure:colorbar(3) end)
      refuses('plot: expected lists and then a table of options, got "r--"',
         function(a) a:plot({1, 2}, {3, 4}, "r--") end)
      refuses("semilogy: expected limits above 0, got -1 and 1",
         function() select(2, plot.subplots()):set_ylim(-1, 1):semilogy {1, 10} end)
      for _, name in ipairs {"set_title", "set_xlabel", "set_ylabel"} do
         refuses(name .. ": expected no further argument, got a table",
            function(a) a[name](a, "x", {fontsize = 3}) end)
      end
      refuses("set_xlim: expected no further argument", function(a) a:set_xlim(0, 1, {auto = true}) end)
      refuses("set_ylim: expected no further argument", function(a) a:set_ylim(0, 1, 2) end)
      refuses("set_xscale: expected no further argument", function(a) a:set_xscale("log", {base = 2}) end)
      refuses("set_yscale: expected no further argument", function(a) a:set_yscale("log", {base = 2}) end)
      refuses("set_xticks: expected no further argument",
         function(a) a:set_xticks({1}, {"a"}, {rotation = 90}) end)
      refuses("set_yticks: expected no further argument", function(a) a:set_yticks({1}, {"a"}, 3) end)
      refuses("grid: expected no further argument", function(a) a:grid(true, {axis = "x"}) end)
      refuses("savefig: expected no further argument, got a table",
         function() figure:savefig("x.png", {dpi = 300}) end)
      refuses("scatter: vmin: expected at most vmax, got 5 and 1",
         function(a) a:scatter({1, 2}, {1, 2}, {c = {1, 2}, vmin = 5, vmax = 1}) end)
      refuses("scatter: vmin: expected at most vmax",
         function(a) a:scatter({1, 2}, {1, 2}, {c = {1, 2}, vmin = nan}) end)
      refuses("imshow: extent: expected {left, right, bottom, top}, finite numbers",
         function(a) a:imshow({{1}}, {extent = {0, nan, 0, 1}}) end)
      refuses("errorbar: capsize: expected a number from 0 to 1000",
         function(a) a:errorbar({1}, {1}, {yerr = 1, capsize = inf}) end)
      refuses("errorbar: markersize: expected a number from 0 to 1000",
         function(a) a:errorbar({1}, {1}, {markersize = nan}) end)
      refuses("bar: width: expected a finite number", function(a) a:bar({1}, {1}, {width = nan}) end)
      refuses('bar: x, value 1: expected "a", as in the bars before, got "c"',
         function(a) a:bar({"a", "b"}, {1, 2}):bar({"c", "b"}, {1, 2}) end)
      refuses('bar: x, value 3: expected nil, as in the bars before, got "c"',
         function() select(2, plot.subplots()):bar({"a", "b"}, {1, 2}):bar({"a", "b", "c"}, {1, 2, 3}) end)
      refuses("hist: range: expected no range beside the edges of bins",
         function(a) a:hist({1}, {bins = {0, 1}, range = {0, 9}}) end)
      refuses("hist: bins, edge 1: expected a finite number", function(a) a:hist({1}, {bins = {-inf, 1}}) end)
      refuses("boxplot: whis: expected a number of at least 0", function(a) a:boxplot({1}, {whis = nan}) end)
      refuses("contourf: levels, value 1: expected a finite number",
         function(a) a:contourf({{1, 2}, {3, 4}}, {levels = {-inf, 2}}) end)
      refuses("subplots: nrows: expected an integer from 1 to 20, got 0", function() plot.subplots(0) end)
      refuses("subplots: figsize: expected {width, height}", function() plot.subplots {figsize = {1}} end)
   end)
end)
