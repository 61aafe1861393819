-- Radii are mean radii; moons are those with a confirmed orbit at the beginning of 2024.
CREATE TABLE planets (id INTEGER PRIMARY KEY, name TEXT, radius_km REAL, moons INTEGER);
INSERT INTO planets (name, radius_km, moons) VALUES
  ('Mercury', 2439.7, 0), ('Venus', 6051.8, 0), ('Earth', 6371.0, 1), ('Mars', 3389.5, 2),
  ('Jupiter', 69911, 95), ('Saturn', 58232, 146), ('Uranus', 25362, 28), ('Neptune', 24622, 16);
