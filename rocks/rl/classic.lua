-- classic.lua - the environments of classic control: CartPole (Barto, Sutton, Anderson 1983),
-- Acrobot (Sutton 1996), MountainCar (Moore 1990) and Pendulum.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Env = require "tlua.rl.Env"
local spaces = require "tlua.rl.spaces"

local M = {}

local cos, sin, pi <const> = math.cos, math.sin, math.pi
local INF <const> = math.huge

local function clip(x, low, high) return math.max(low, math.min(high, x)) end

-- Defines the class of an environment. `actions` is its space of actions, `low` and `high` are the
-- bounds of its observations, and `signature` declares the options of its constructor.
local function define(name, actions, low, high, signature)
   local cls = class.class("rl." .. name, Env)
   local take, names = args.declare(("rl.%s(%s)"):format(name, signature or ""))
   cls.render_mode, cls.option_names = "svg", names
   function cls:__init(...)
      for option, value in pairs(take(...)) do
         if type(value) == "number" and not (value > -INF and value < INF) then
            args.refuse("rl." .. name, option, "a finite number", value)
         end
         self[option] = value
      end
      self.action_space = type(actions) == "number" and spaces.Discrete(actions)
         or spaces.Box(actions[1], actions[2])
      self.observation_space = spaces.Box(low, high)
   end
   function cls:observe() return {table.unpack(self.state)} end
   M[name] = cls
   return cls
end

-- Pictures ----------------------------------------------------------------------------------------

-- Returns an SVG document of 600 by 400 pixels with the given shapes. For the shapes, y is 0 at the
-- bottom and grows upwards.
local function picture(self, shapes)
   if not self.state then
      torch.raise(torch.type(self) .. ".render: call reset before the first picture")
   end
   return '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 400" width="600" height="400">'
      .. '\n<rect width="600" height="400" fill="white"/>\n' .. table.concat(shapes, "\n")
      .. "\n</svg>\n"
end

local function line(x1, y1, x2, y2, color, width)
   return ('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%d" '
      .. 'stroke-linecap="round"/>'):format(x1, 400 - y1, x2, 400 - y2, color, width)
end

local function circle(x, y, radius, color)
   return ('<circle cx="%.1f" cy="%.1f" r="%d" fill="%s"/>'):format(x, 400 - y, radius, color)
end

-- Draws a rectangle around a point. The rectangle is turned by an angle.
local function rectangle(x, y, width, height, color, angle)
   return ('<rect x="%.1f" y="%.1f" width="%d" height="%d" fill="%s" transform="rotate(%.1f %.1f '
      .. '%.1f)"/>'):format(x - width / 2, 400 - y - height / 2, width, height, color,
      -math.deg(angle or 0), x, 400 - y)
end

-- CartPole ----------------------------------------------------------------------------------------

local angle_limit <const> = 12 * 2 * pi / 360
local CartPole = define("CartPole", 2, {-4.8, -INF, -2 * angle_limit, -INF},
   {4.8, INF, 2 * angle_limit, INF}, "sutton_barto_reward: boolean = false")

function CartPole:start() self.state = self:uniform(4, -0.05, 0.05) end

function CartPole:advance(action)
   local x, dx, angle, turn = table.unpack(self.state)
   local force = action == 2 and 10.0 or -10.0
   local c, s = cos(angle), sin(angle)
   local common = (force + 0.05 * turn ^ 2 * s) / 1.1
   local dturn = (9.8 * s - c * common) / (0.5 * (4 / 3 - 0.1 * c ^ 2 / 1.1))
   local ddx = common - 0.05 * dturn * c / 1.1
   local t = 0.02
   self.state = {x + t * dx, dx + t * ddx, angle + t * turn, turn + t * dturn}
   local new_x, new_angle = self.state[1], self.state[3]
   local fallen = new_x < -2.4 or new_x > 2.4 or new_angle < -angle_limit or new_angle > angle_limit
   if self.sutton_barto_reward then return fallen and -1.0 or 0.0, fallen end
   return 1.0, fallen
end

function CartPole:render()
   local x, angle = 0, 0
   if self.state then x, angle = 300 + self.state[1] * 125, self.state[3] end
   return picture(self, {line(0, 100, 600, 100, "black", 1), rectangle(x, 100, 50, 30, "black"),
      line(x, 107, x + 125 * sin(angle), 107 + 125 * cos(angle), "#ca9865", 10),
      circle(x, 107, 5, "#8184cb")})
end

-- Acrobot -----------------------------------------------------------------------------------------

local Acrobot = define("Acrobot", 3, {-1, -1, -1, -1, -4 * pi, -9 * pi},
   {1, 1, 1, 1, 4 * pi, 9 * pi})

function Acrobot:start() self.state = self:uniform(4, -0.1, 0.1) end

function Acrobot:observe()
   local s = self.state
   return {cos(s[1]), sin(s[1]), cos(s[2]), sin(s[2]), s[3], s[4]}
end

-- Returns the derivatives of Acrobot's angles and angular speeds, for links of 1 kg and 1 m.
local function acrobot_slope(s, torque)
   local a, b, da, db = s[1], s[2], s[3], s[4]
   local d1 = 0.25 + (1 + 0.25 + cos(b)) + 2
   local d2 = 0.25 + 0.5 * cos(b) + 1
   local phi2 = 0.5 * 9.8 * cos(a + b - pi / 2)
   local phi1 = -0.5 * db ^ 2 * sin(b) - db * da * sin(b) + 1.5 * 9.8 * cos(a - pi / 2) + phi2
   local ddb = (torque + d2 / d1 * phi1 - 0.5 * da ^ 2 * sin(b) - phi2) / (1.25 - d2 ^ 2 / d1)
   return {da, db, -(d2 * ddb + phi1) / d1, ddb}
end

local function moved(s, slope, t)
   local list = {}
   for i = 1, 4 do list[i] = s[i] + t * slope[i] end
   return list
end

local function wrapped(x)
   while x > pi do x = x - 2 * pi end
   while x < -pi do x = x + 2 * pi end
   return x
end

function Acrobot:advance(action)
   local s, torque, t = self.state, action - 2.0, 0.2
   local k1 = acrobot_slope(s, torque)
   local k2 = acrobot_slope(moved(s, k1, t / 2), torque)
   local k3 = acrobot_slope(moved(s, k2, t / 2), torque)
   local k4 = acrobot_slope(moved(s, k3, t), torque)
   local n = {}
   for i = 1, 4 do n[i] = s[i] + t / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) end
   self.state = {wrapped(n[1]), wrapped(n[2]), clip(n[3], -4 * pi, 4 * pi),
      clip(n[4], -9 * pi, 9 * pi)}
   n = self.state
   local terminated = -cos(n[1]) - cos(n[2] + n[1]) > 1
   return terminated and 0.0 or -1.0, terminated
end

function Acrobot:render()
   local a, b = 0, 0
   if self.state then a, b = self.state[1], self.state[2] end
   local x, y = 300 + 90 * sin(a), 200 - 90 * cos(a)
   local x2, y2 = x + 90 * sin(a + b), y - 90 * cos(a + b)
   return picture(self, {line(0, 290, 600, 290, "black", 1), line(300, 200, x, y, "#00cccc", 18),
      line(x, y, x2, y2, "#00cccc", 18), circle(300, 200, 9, "#cccc00"),
      circle(x, y, 9, "#cccc00")})
end

-- MountainCar -------------------------------------------------------------------------------------

local function start_in_valley(self) self.state = {self:uniform(1, -0.6, -0.4)[1], 0.0} end

-- Accelerates the car and moves it by one step. Returns whether it has reached the goal.
local function drive(self, push, goal)
   local x, speed = self.state[1], self.state[2]
   speed = clip(speed + push - 0.0025 * cos(3 * x), -0.07, 0.07)
   x = clip(x + speed, -1.2, 0.6)
   if x == -1.2 and speed < 0 then speed = 0.0 end
   self.state = {x, speed}
   return x >= goal and speed >= self.goal_velocity
end

local function draw_valley(self, goal)
   local function place(x) return (x + 1.2) * 600 / 1.8, (sin(3 * x) * 0.45 + 0.55) * 333 end
   local points = {}
   for i = 0, 90 do
      local x, y = place(-1.2 + i * 0.02)
      points[i + 1] = ("%.1f,%.1f"):format(x, 400 - y)
   end
   local x, y = place(self.state and self.state[1] or 0)
   local angle = math.atan(cos(3 * (self.state and self.state[1] or 0)) * 0.45 * 333 * 3, 600 / 1.8)
   local flag_x, flag_y = place(goal)
   return picture(self, {('<polyline points="%s" fill="none" stroke="black"/>'):format(
      table.concat(points, " ")), line(flag_x, flag_y, flag_x, flag_y + 50, "black", 1),
      rectangle(flag_x + 12, flag_y + 43, 24, 14, "#cccc00"),
      rectangle(x - 12 * sin(angle), y + 12 * cos(angle), 40, 20, "black", angle)})
end

local MountainCar = define("MountainCar", 3, {-1.2, -0.07}, {0.6, 0.07},
   "goal_velocity: number = 0")

MountainCar.start = start_in_valley

function MountainCar:advance(action) return -1.0, drive(self, (action - 2) * 0.001, 0.5) end

function MountainCar:render() return draw_valley(self, 0.5) end

local Continuous = define("MountainCarContinuous", {{-1.0}, {1.0}}, {-1.2, -0.07}, {0.6, 0.07},
   "goal_velocity: number = 0")

Continuous.start = start_in_valley

function Continuous:advance(action)
   local terminated = drive(self, clip(action[1], -1, 1) * 0.0015, 0.45)
   return (terminated and 100.0 or 0.0) - action[1] ^ 2 * 0.1, terminated
end

function Continuous:render() return draw_valley(self, 0.45) end

-- Pendulum ----------------------------------------------------------------------------------------

local Pendulum = define("Pendulum", {{-2.0}, {2.0}}, {-1, -1, -8}, {1, 1, 8}, "g: number = 10.0")

function Pendulum:start() self.state = {self:uniform(1, -pi, pi)[1], self:uniform(1, -1, 1)[1]} end

function Pendulum:observe()
   return {cos(self.state[1]), sin(self.state[1]), self.state[2]}
end

function Pendulum:advance(action)
   local angle, speed = self.state[1], self.state[2]
   local u = clip(action[1], -2, 2)
   local cost = ((angle + pi) % (2 * pi) - pi) ^ 2 + 0.1 * speed ^ 2 + 0.001 * u ^ 2
   speed = clip(speed + (1.5 * self.g * sin(angle) + 3 * u) * 0.05, -8, 8)
   self.state = {angle + speed * 0.05, speed}
   return -cost, false
end

function Pendulum:render()
   local angle = self.state and self.state[1] or 0
   return picture(self, {line(300, 200, 300 - 150 * sin(angle), 200 + 150 * cos(angle), "#cc4d4d",
      30), circle(300, 200, 8, "black")})
end

return M
