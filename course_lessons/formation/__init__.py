"""How induction heads form: many small models, trained, and every history kept.

`python -m course_lessons.formation` makes all of it.

The models read a synthetic language in which induction pays, so that one run takes half a minute on
a laptop. Lesson 08 watches one of them and compares many, lesson 08b asks how sure that is:
`language` is what they read, `forward` what they compute, part by part, `measures` what is seen of
them, `runs` how they are trained, `events` when things happen, `experiments` which runs are
compared, and how.
"""
