local torch = require "tlua"
local shell = require "spec.support.shell"

local path
before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)

-- Writes a text to a file, and returns a reader of the file.
local function csv(text, options)
   shell.write(path, text)
   return torch.data.CSV(path, options)
end

describe("data.CSV", function()
   it("reads columns by the names in the first line, and guesses their types", function()
      local rows = csv "id,weight,name,good\n1,0.5,ann,true\n-2,1e3,bob,false\n3,,eve,True\n"
      assert.same({"id", "weight", "name", "good"}, rows.names)
      assert.same({id = "int64", weight = "float32", name = "string", good = "bool"}, rows.dtypes)
      local all = rows:read()
      assert.same({1, -2, 3}, all.id:tolist())
      assert.same({0.5, 1000}, all.weight[{{1, 2}}]:tolist())
      assert.truthy(all.weight:isnan()[3]:item())
      assert.same({"ann", "bob", "eve"}, all.name)
      assert.same({true, false, true}, all.good:tolist())
      assert.equal("int64", all.id.dtype)
   end)

   it("reads quoted fields, with delimiters, line ends and doubled quotes in them", function()
      local all = csv('a,b\n"1","x, ""y""\nz"\n2,""\r\n3,plain "text"\n'):read()
      assert.same({1, 2, 3}, all.a:tolist())
      assert.same({'x, "y"\nz', "", 'plain "text"'}, all.b)
      assert.same({'"x"'}, csv('a\n"x"\n', {quote = ""}):read().a)
      assert.same({"x;y"}, csv("a\tb\n'x;y'\t1\n", {quote = "'", delimiter = "\t"}):read().a)
   end)

   it("accepts files without names, with empty lines, with line ends of Windows, and without a last one", function()
      local rows = csv("1,2\r\n\r\n3,4\n\n5,6", {header = false})
      assert.same({1, 2}, rows.names)
      assert.same({{1, 2}, {3, 4}, {5, 6}}, rows:tensor():tolist())
      assert.equal("int64", rows:tensor().dtype)
      local all = csv("1,2\n3,4\n", {header = {"x", "y"}}):read()
      assert.same({{1, 3}, {2, 4}}, {all.x:tolist(), all.y:tolist()})
      assert.same({7}, csv "\xEF\xBB\xBFa\n7\n":read().a:tolist())
   end)

   it("returns pieces of batch_size rows", function()
      local rows = csv("x\n1\n2\n3\n4\n5\n\n", {batch_size = 2})
      for _ = 1, 2 do -- each pass over the reader starts at the beginning of the file
         local sizes = {}
         for piece in rows:iter() do sizes[#sizes + 1] = piece.x:tolist() end
         assert.same({{1, 2}, {3, 4}, {5}}, sizes)
      end
      local loader = torch.data.DataLoader(rows, {batch_size = false})
      local sum = 0
      for piece in loader:iter() do sum = sum + piece.x:sum():item() end
      assert.equal(15, sum)
   end)

   it("reads the requested columns in the requested dtypes", function()
      local rows = csv("a,b,c\n1,2,3\n4,5,6\n", {columns = {"c", "a"}, dtypes = {a = "uint8"}})
      assert.same({"a", "c"}, rows.names)
      local all = rows:read()
      assert.same({"uint8", "int64"}, {all.a.dtype, all.c.dtype})
      assert.is_nil(all.b)
      assert.equal("float64", csv("a,b\n1,2\n", {dtypes = "float64"}):tensor().dtype)
      assert.same({"01"}, csv("a\n01\n", {dtypes = {a = "string"}}):read().a)
      assert.equal("float64", csv("a,b\n1,2.5\n", {dtypes = {b = "float64"}}):tensor().dtype)
   end)

   it("reads files without rows", function()
      assert.same({}, csv "":read())
      local all = csv("a,b\n", {dtypes = {a = "int8"}}):read()
      assert.same({0}, all.a.shape)
      assert.same({}, all.b)
      for _ in csv "a,b\n":iter() do error "a piece" end
   end)

   it("reads numbers to the last bit", function()
      -- These numbers are difficult to parse: some are half-way between two doubles, some have many digits, and some
      -- are at the ends of the range.
      local texts = {"0.1", "123456789012345678", "9007199254740993", "1.7976931348623157e308",
         "5e-324", "2.2250738585072011e-308", "1e23", "8.5e22", "-0.0", "+3", ".5", "7.", "1E5",
         "0.000000000000000000000000000012345678901234567890123", "1e400", "1e-400",
         "179769313486231580793728971405301", "100000000000000000000000000000000000000.5e-30"}
      local random = 12345
      for _ = 1, 2000 do
         random = (random * 6364136223846793005 + 1442695040888963407) & math.maxinteger
         local x = string.unpack("<d", string.pack("<i8", random))
         if x == x and math.abs(x) < math.huge then texts[#texts + 1] = ("%.17g"):format(x) end
         texts[#texts + 1] = ("%d.%de%d"):format(random >> 40, random & 0xFFFF, (random >> 20) % 60 - 30)
      end
      local values = csv(table.concat(texts, "\n") .. "\n", {header = false, dtypes = "float64"}):read()[1]:tolist()
      for i, text in ipairs(texts) do
         local expected = tonumber((text:gsub("^%+", ""))) * 1.0
         assert.equal(string.pack("<d", expected), string.pack("<d", values[i]), text)
      end
      local special = csv("nan\nInf\n-infinity\n  2 \n\"\"\n", {header = false}):read()[1]:tolist()
      assert.truthy(special[1] ~= special[1] and special[5] ~= special[5])
      assert.same({math.huge, -math.huge, 2}, {special[2], special[3], special[4]})
   end)

   it("keeps integers whole, within their dtype's range", function()
      local function column(text, dtype) return csv(text, {header = false, dtypes = dtype}):read()[1]:tolist() end
      assert.same({math.maxinteger, math.mininteger}, column("9223372036854775807\n-9223372036854775808\n", "int64"))
      assert.same({127, -128, 0}, column("127\n-128\n-0\n", "int8"))
      for _, case in ipairs {{"9223372036854775808", "int64"}, {"-9223372036854775809", "int64"},
         {"128", "int8"}, {"-129", "int8"}, {"256", "uint8"}, {"-1", "uint8"}, {"1.0", "int64"},
         {"", "int64"}, {"-", "int64"}, {"0x10", "int64"}, {"2", "bool"}, {"", "bool"},
         {"0x10", "float32"}, {"1e", "float32"}, {"1e+", "float32"}, {".", "float32"},
         {"1.5.2", "float32"}, {"nano", "float32"}, {"1_000", "float64"}} do
         shell.write(path, '"' .. case[1] .. '"\n')
         local rows = torch.data.CSV(path, {header = false, dtypes = case[2]})
         assert.raises("line 1: column 1: expected a value of " .. case[2], function() rows:read() end)
      end
   end)

   it("reports a mistake with its line and column", function()
      local rows = csv('a,b\n1,2\nx,"4"\n', {dtypes = {a = "int64"}})
      assert.raises("data.CSV: " .. path .. ": ",
         'line 3: column 1 ("a"): expected a value of int64, got "x"', function() rows:read() end)
      local lines = csv('a,b\n"1","\n\n"\nx,2\n', {dtypes = {a = "int64"}})
      assert.raises("line 5: column 1", function() lines:read() end)
      for text, message in pairs {
         ["a,b\n1,2\n\n3\n"] = "line 4: expected 2 fields, got 1",
         ["a,b\n1,2\n3,4,5\n"] = "line 3: expected 2 fields, got at least 3",
         ['a,b\n"1,2\n3,4\n'] = 'line 2: column 1 ("a"): a quote is not closed',
         ['a,b\n1,""x\n'] = 'line 2: column 2 ("b"): more text follows a quoted field',
      } do
         shell.write(path, text)
         assert.raises(message, function() torch.data.CSV(path) end)
      end
      local long = {"a,b"}
      for i = 1, 1500 do long[#long + 1] = i .. "," .. i end
      long[1402] = "1401,what"
      shell.write(path, table.concat(long, "\n"))
      local pieces = torch.data.CSV(path, {batch_size = 100})
      assert.raises('line 1402: column 2 ("b"): expected a value of int64, got "what"', function()
         for _ in pieces:iter() do end
      end)
   end)

   it("refuses invalid options", function()
      shell.write(path, "a,b\n1,x\n")
      local cases = {
         {{delimiter = ",,"}, "delimiter: expected one character"},
         {{quote = ","}, "quote: expected another than delimiter"},
         {{seperator = ","}, "seperator"}, {{batch_size = 0}, "batch_size: expected"},
         {{columns = {"z"}}, "columns: there is no column z"},
         {{dtypes = {z = "int8"}}, "dtypes: there is no column z"},
         {{dtypes = {a = "text"}}, 'dtypes: expected dtypes or "string"'},
         {{header = {"a"}}, "header: expected 2 names, got 1"},
         {{header = {"a", "a"}}, 'two columns are named "a"'}, {{header = 1}, "header: expected true"},
      }
      for _, case in ipairs(cases) do
         assert.raises(case[2], function() torch.data.CSV(path, case[1]) end)
      end
      assert.raises("No such file", function() torch.data.CSV(path .. ".none") end)
      local rows = torch.data.CSV(path)
      assert.raises("column 2 (\"b\") is not a number, but text, as in \"x\"", function() rows:tensor() end)
   end)

   it("refuses a compressed file that would fill the memory", function()
      -- zeros compress well: the decompressed file is 1000 times larger than the compressed one
      shell.ok("head -c 300000000 /dev/zero | gzip -c > " .. shell.quote(path .. ".csv.gz"))
      assert.raises("become more than 268435456; unpack them before",
         function() torch.data.CSV(path .. ".csv.gz") end)
      os.remove(path .. ".csv.gz")
      for what, call in pairs {
         ['inflate: kind: expected "raw" or "gzip", got nothing'] =
            function() torch.io.inflate(torch.zeros({3}, {dtype = "uint8"})) end,
         ['inflate: kind: expected "raw" or "gzip", got string \'zip\''] =
            function() torch.io.inflate(torch.zeros({3}, {dtype = "uint8"}), "zip") end,
         ["deflate: text: expected a string, got nil"] = function() torch.io.deflate() end,
         ["deflate: expected a Tensor, got nil"] = function() torch.io.deflate "x" end,
      } do
         assert.raises(what, call)
      end
   end)

   it("decompresses files of gzip", function()
      shell.write(path .. ".csv", "a\n1\n2\n")
      shell.ok("gzip -f " .. shell.quote(path .. ".csv"))
      assert.same({1, 2}, torch.data.CSV(path .. ".csv.gz"):read().a:tolist())
      os.remove(path .. ".csv.gz")
   end)

   it("decompresses all members of a file of gzip, and refuses a file that ends in one", function()
      -- A gzip file may consist of several compressed members (RFC 1952, 2.2). Some programs append an empty member.
      local function packed(text)
         shell.write(path .. ".csv", text)
         shell.ok("gzip -f " .. shell.quote(path .. ".csv"))
         return shell.read(path .. ".csv.gz")
      end
      local whole = packed "a\n1\n" .. packed "2\n" .. packed ""
      shell.write(path .. ".csv.gz", whole)
      assert.same({1, 2}, torch.data.CSV(path .. ".csv.gz"):read().a:tolist())
      shell.write(path .. ".csv.gz", whole:sub(1, -25))
      assert.raises("the deflated data", function() torch.data.CSV(path .. ".csv.gz") end)
      os.remove(path .. ".csv.gz")
   end)
end)
